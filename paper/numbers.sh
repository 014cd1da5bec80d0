#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The numbers of the article, from results: numbers.sh NMBENCH RESULT.h5 FIGURES OUT
#
# FIGURES holds what `nmbench plot` wrote.  OUT gets numbers.tex, one definition a
# number, which the text uses as \nm{speedup:machine:pipeline}, and the tables.  A
# name that has no number is an error of LaTeX, so the text cannot go stale unseen.
set -eu
[ $# -eq 4 ] || { echo "usage: numbers.sh NMBENCH RESULT.h5 FIGURES OUT" >&2; exit 2; }
nmbench=$1 result=$2 figures=$3 out=$4
LC_ALL=C
export LC_ALL
mkdir -p "$out"
cells=$out/cells.csv
"$nmbench" export "$result" --csv >"$cells"

# Fields in quotes may hold commas and line breaks (reasons, logs).
csv='function split_csv(line, f,   n, c, i, q) {
  n = 1; f[1] = ""; q = 0
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (c == "\"") q = !q
    else if (c == "," && !q) f[++n] = ""
    else f[n] = f[n] c
  }
  return n
}
{ # a row ends where its quotes are closed
  row = row $0; quotes += gsub(/"/, "\"")
  if (quotes % 2) { row = row " "; next }
  $0 = row; row = ""; quotes = 0
}
!head { n = split_csv($0, f); for (i = 1; i <= n; i++) col[f[i]] = i; head = 1; next }
{ split_csv($0, f) }'

define='function define(name, value) { printf "\\expandafter\\def\\csname nm@%s\\endcsname{%s}\n", name, value }'

{
  echo "% Made by numbers.sh from $(basename "$result")."
  # how many cells, how they ended, what the axes are
  awk "$define $csv"'
    { all++; how[f[col["status"]]]++; model[f[col["model"]]]; machine[f[col["machine"]]] }
    f[col["status"]] == "ok" && f[col["latency"]] + 0 < f[col["bound"]] * (1 - 1e-12) { below++ }
    END {
      define("cells", all); define("cells:ok", how["ok"] + 0)
      define("cells:infeasible", how["infeasible"] + 0)
      define("cells:below-bound", below + 0)
      m = 0; for (x in model) m++; define("models", m)
      m = 0; for (x in machine) m++; define("machines", m)
      other = 0; for (x in how) if (x != "ok" && x != "infeasible") other += how[x]
      define("cells:other", other)
    }' "$cells"
  # share of the latency that transfers over links take, with all passes
  awk "$define $csv"'
    f[col["status"]] == "ok" && f[col["pipeline"]] == "all" {
      h = f[col["machine"]]; moved = 0
      for (c in col) if (c ~ /^latency_by_engine_cause\..*\.transfer$/) moved += f[col[c]]
      share[h] += moved / f[col["latency"]]; times[h]++
    }
    END { for (h in times) define("transfer:" h, sprintf("%.0f\\,\\%%", 100 * share[h] / times[h])) }' "$cells"
  # geometric means and intervals of the figures that have them
  for f in speedup gap; do
    [ -s "$figures/$f.dat" ] || continue
    awk -F '\t' -v f="$f" "$define"'
      $7 == "geomean" && $2 != "nan" {
        define(f ":" $9 ":" $8, sprintf("%.2f", $2))
        define(f "-n:" $9 ":" $8, $5)
        define(f "-ci:" $9 ":" $8, $3 == "nan" ? "no interval" : sprintf("%.2f--%.2f", $3, $4))
      }' "$figures/$f.dat"
  done
} >"$out/numbers.tex"

# Table: geometric mean speed-up of each pipeline on each machine.
awk -F '\t' '
  /^#/ || NF < 9 || $7 != "geomean" { next }
  {
    if (!($9 in seen)) { seen[$9]; machine[++m] = $9 }
    if (!($8 in known)) { known[$8]; pipe[++p] = $8 }
    v[$9, $8] = $2 == "nan" ? "--" : sprintf("%.2f", $2)
    if ($3 != "nan") v[$9, $8] = v[$9, $8] sprintf(" {\\scriptsize[%.2f, %.2f]}", $3, $4)
  }
  END {
    printf "\\begin{tabular}{l"; for (i = 1; i <= m; i++) printf "r"; print "}\n\\toprule"
    for (i = 1; i <= m; i++) printf " & \\texttt{%s}", machine[i]; print " \\\\\n\\midrule"
    for (j = 1; j <= p; j++) {
      printf "\\texttt{%s}", pipe[j]
      for (i = 1; i <= m; i++) printf " & %s", v[machine[i], pipe[j]]
      print " \\\\"
    }
    print "\\bottomrule\n\\end{tabular}"
  }' "$figures/speedup.dat" >"$out/speedup-table.tex"

# Table: time of a token at batch 8, context 2048, even routing, with all passes.
awk "$csv"'
  f[col["pipeline"]] == "all" && f[col["batch"]] == 8 && f[col["context"]] == 2048 &&
  f[col["routing"]] == "uniform" {
    m = f[col["model"]]; h = f[col["machine"]]
    if (!(m in seen)) { seen[m]; model[++nm] = m }
    if (!(h in known)) { known[h]; machine[++nh] = h }
    how = f[col["status"]]
    v[m, h] = how == "ok" ? sprintf("%.2f", 1e3 * f[col["latency"]]) : how == "infeasible" ? "no room" : "--"
  }
  END {
    printf "\\begin{tabular}{l"; for (i = 1; i <= nh; i++) printf "r"; print "}\n\\toprule"
    printf "ms"; for (i = 1; i <= nh; i++) printf " & \\rotatebox{60}{\\texttt{%s}}", machine[i]
    print " \\\\\n\\midrule"
    for (j = 1; j <= nm; j++) {
      printf "\\texttt{%s}", model[j]
      for (i = 1; i <= nh; i++) printf " & %s", v[model[j], machine[i]]
      print " \\\\"
    }
    print "\\bottomrule\n\\end{tabular}"
  }' "$cells" >"$out/latency-table.tex"
