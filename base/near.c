/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Edit distance with transpositions (optimal string alignment), as a typing
 * slip is most often one letter more, less, wrong or swapped. */
#include "config.h" /* first: names outside of C11 */

#include "base/near.h"

#include <string.h>
#include <strings.h>

enum { LONGEST = 63 }; /* longer names are never offered */

static int
least(int a, int b)
{
  return a < b ? a : b;
}

static int
distance(const char *a, size_t na, const char *b, size_t nb)
{
  int row[3][LONGEST + 1];
  for (size_t j = 0; j <= nb; j++)
    row[0][j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3];
    const int *older = row[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      now[j] =
          least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = least(now[j], older[j - 2] + 1);
    }
  }
  return row[na % 3][nb];
}

const char *
nmb__nearest(const char *word, const char *const *names, int n)
{
  const size_t len = strlen(word);
  if (len == 0 || len > LONGEST)
    return NULL;
  const char *best = NULL;
  int best_cost =
      (int)len / 3 + 2; /* a third of the letters may be wrong, and one more */
  for (int i = 0; i < n; i++) {
    const size_t nl = strlen(names[i]);
    if (nl > LONGEST)
      continue;
    int cost = distance(word, len, names[i], nl);
    /* a name of which the word is the beginning or the end is meant often */
    if (len > 2 && nl > len &&
        (!strncasecmp(word, names[i], len) || !strcmp(word, names[i] + nl - len)))
      cost = least(cost, 1);
    if (cost < best_cost && (size_t)cost < nl) {
      best = names[i];
      best_cost = cost;
    }
  }
  return best;
}

const char *
nmb__hint(nmb_run *run, const char *word, const char *const *names, int n)
{
  const char *near = nmb__nearest(word, names, n);
  return near ? nmb_format(run, "; did you mean '%s'?", near) : "";
}
