# files of this folder
