# one plugin a file
