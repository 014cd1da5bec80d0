/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keys inside quantization_config against quantkeys.def: one that nobody knows may change
 * how weights are stored, so it is an error; what is known is noted for people. */
#include <string.h>

#include "base/near.h"
#include "base/run.h"
#include "frontend/quant-method.h"

typedef enum kind { K_any, K_int, K_real, K_bool, K_text, K_texts, K_list, K_object } kind;

static const struct {
  const char *method, *path;
  kind type;
  const char *why;
} rows[] = {
#define X(method, path, type, why) {method, path, K_##type, why},
#include "frontend/quantkeys.def"
#undef X
};
#define NROW (sizeof rows / sizeof *rows)

static const char *const kinds[] = {"anything", "a whole number", "a number",
                                    "true or false", "a text", "a list of texts",
                                    "a list", "an object"};

static bool
is(const json_t *v, kind k)
{
  switch (k) {
  case K_int: return json_is_integer(v);
  case K_real: return json_is_number(v);
  case K_bool: return json_is_boolean(v);
  case K_text: return json_is_string(v);
  case K_list: return json_is_array(v);
  case K_object: return json_is_object(v);
  case K_texts:
    for (size_t i = 0; i < json_array_size(v); i++)
      if (!json_is_string(json_array_get(v, i)))
        return false;
    return json_is_array(v);
  default: return true;
  }
}

/* Does the row's path fit?  rest: it ended with **. */
static bool
fits(const char *row, const char *path, bool *rest)
{
  *rest = false;
  for (;;) {
    const size_t n = strcspn(row, "."), m = strcspn(path, ".");
    if (!strncmp(row, "**", 2)) {
      *rest = true;
      return true;
    }
    if (!(n == 1 && *row == '*') && (n != m || strncmp(row, path, n)))
      return false;
    if (!row[n] || !path[m])
      return !row[n] && !path[m];
    row += n + 1;
    path += m + 1;
  }
}

/* ModelOpt has the groups of compressed-tensors. */
static bool
concerns(const char *row, const char *method)
{
  return !*row || !strcmp(row, method) ||
         (!strcmp(method, "modelopt") && !strcmp(row, "compressed-tensors"));
}

/* The row of a method, or of all; NMB_NONE: there is none. */
static int
row_find(const char *method, const char *path, bool *rest)
{
  for (size_t i = 0; i < NROW; i++)
    if (concerns(rows[i].method, method) && fits(rows[i].path, path, rest))
      return (int)i;
  return NMB_NONE;
}

static nmb_status
unknown(quant *q, nmb__config *c, const char *method, const char *path, const json_t *v)
{
  const char *full = nmb_format(q->run, "quantization_config.%s", path);
  const char *names[NROW], *last = strrchr(path, '.');
  int n = 0;
  if (json_is_null(v)) {
    nmb__config_note(q->run, c, full, "ignored", "unknown, but null");
    return NMB_OK;
  }
  if (nmb__run_is_lenient(q->run))
    return nmb__config_pass(q->run, c, q->loc, full,
                            "unknown key, which may change how weights are stored");
  for (size_t i = 0; i < NROW; i++)
    if (concerns(rows[i].method, method)) {
      const char *dot = strrchr(rows[i].path, '.');
      names[n++] = dot ? dot + 1 : rows[i].path;
    }
  return nmb_fail(q->run, NMB_BADINPUT, q->loc,
                  "%s: unknown key, which may change how weights are stored%s", full,
                  nmb__hint(q->run, last ? last + 1 : path, names, n));
}

/* depth: objects are as deep as the formats have them, not as a file may have them */
static nmb_status
walk(quant *q, nmb__config *c, const char *method, const char *prefix, const json_t *o,
     int depth)
{
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)o, key, v)
  {
    const char *path =
        nmb_format(q->run, "%s%s", prefix, nmb__config_shown(q->run, key));
    bool rest = false;
    const int at = row_find(method, path, &rest);
    if (at == NMB_NONE) {
      NMB_TRY(unknown(q, c, method, path, v));
      continue;
    }
    if (!json_is_null(v) && !is(v, rows[at].type))
      return nmb_fail(q->run, NMB_BADINPUT, q->loc,
                      "quantization_config.%s: found %s, expected %s", path,
                      nmb__json_show(q->run, v), kinds[rows[at].type]);
    nmb__config_note(q->run, c, nmb_format(q->run, "quantization_config.%s", path),
                     *rows[at].why ? "ignored" : "used as",
                     *rows[at].why ? rows[at].why : "stored format");
    if (json_is_object(v) && !rest && depth < 6)
      NMB_TRY(walk(q, c, method, nmb_format(q->run, "%s.", path), v, depth + 1));
  }
  return NMB_OK;
}

nmb_status
nmb__quant_keys(quant *q, nmb__config *c)
{
  return walk(q, c, nmb__quant_name(q), "", q->j, 0);
}
