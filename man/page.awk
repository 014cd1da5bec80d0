# SPDX-License-Identifier: GPL-3.0-or-later
# A page of docs/ as a man page: awk -v name=NAME -v section=5 -v version=V -f page.awk
# The part of Markdown that those pages use: headings, paragraphs, lists, tables (a row
# becomes an entry, its first cell the tag), code in fences or indented, `code`, **bold**.
function plain(s) # for roff: no character means anything
{
  gsub(/\\/, "\\e", s)
  gsub(/-/, "\\-", s)
  gsub(/'/, "\\(aq", s)
  return s
}
function inline(s,    out, i, part, n)
{
  out = ""
  n = split(s, part, "`")
  for (i = 1; i <= n; i++) {
    if (i % 2 == 0) {
      out = out "\\fB" plain(part[i]) "\\fR"
      continue
    }
    s = plain(part[i])
    while (match(s, /\*\*[^*]+\*\*/))
      s = substr(s, 1, RSTART - 1) "\\fB" substr(s, RSTART + 2, RLENGTH - 4) "\\fR" \
          substr(s, RSTART + RLENGTH)
    while (match(s, /\*[a-z][^*]*\*/))
      s = substr(s, 1, RSTART - 1) "\\fI" substr(s, RSTART + 1, RLENGTH - 2) "\\fR" \
          substr(s, RSTART + RLENGTH)
    out = out s
  }
  return out
}
function put(s) # a line that begins with a dot is text, too
{
  print (s ~ /^\./ ? "\\&" : "") s
}
function flush_text()
{
  if (text != "")
    put(inline(text))
  text = ""
}
function close_code()
{
  if (code)
    print ".EE\n.RE"
  code = 0
}
function cells(line,    n)
{
  gsub(/\\\|/, "\001", line) # \| is no border
  sub(/^\| */, "", line)
  sub(/ *\|$/, "", line)
  n = split(line, cell, / *\| */)
  for (i = 1; i <= n; i++)
    gsub(/\001/, "|", cell[i])
  return n
}
function table_row(line,    n, i, s)
{
  n = cells(line)
  if (!rows++) {
    for (i = 1; i <= n; i++)
      head[i] = cell[i]
    return
  }
  if (line ~ /^\|[-| :]+$/)
    return
  print ".TP"
  put(inline(cell[1] == "" ? "\\&" : cell[1]))
  s = ""
  for (i = 2; i <= n; i++)
    s = s (i > 2 ? "; " : "") (n > 2 && head[i] != "" ? head[i] ": " : "") cell[i]
  put(inline(s))
}
BEGIN {
  printf ".\\\" Made from docs/ by man/page.awk.\n"
  printf ".TH %s %s \"\" \"nmbench %s\" \"nmbench\"\n", toupper(name), section, version
}
/^```/ {
  flush_text()
  if (code)
    close_code()
  else {
    print ".PP\n.RS 4\n.EX"
    code = 2
  }
  next
}
code == 2 { put(plain($0)); next }
/^    / && (code == 1 || (blank && text == "" && !item)) {
  if (!code)
    print ".PP\n.RS 4\n.EX"
  code = 1
  put(plain(substr($0, 5)))
  blank = 0
  next
}
code == 1 && !/^$/ { close_code() }
/^\|/ { flush_text(); table_row($0); blank = 0; next }
{ if (rows) { rows = 0; print ".PP" } }
/^# / {
  title = substr($0, 3)
  print ".SH NAME"
  put(plain(name) " \\- " inline(tolower(substr(title, 1, 1)) substr(title, 2)))
  print ".SH DESCRIPTION"
  next
}
/^##+ / {
  flush_text()
  item = 0
  sub(/^##+ /, "")
  print ".SH " inline(toupper($0))
  next
}
/^$/ {
  flush_text()
  if (!blank && !item && !code)
    print ".PP"
  blank = 1
  next
}
/^- / {
  flush_text()
  print ".IP \\(bu 2"
  text = substr($0, 3)
  item = 1
  blank = 0
  next
}
{
  if (blank && item && !/^ /) {
    item = 0
    print ".PP"
  }
  sub(/^ +/, "")
  text = text (text == "" ? "" : " ") $0
  blank = 0
}
END { flush_text(); close_code(); print ".SH SEE ALSO\n.BR nmbench (1)" }
