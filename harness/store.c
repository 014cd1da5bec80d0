/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of results and its HDF5 file; the only user of hdf5.h.
 *
 * The file is built in memory and written in one go, so that a full disk is an
 * ordinary failed write.  What each reader accepts (found by trial with HDF5 1.10,
 * netCDF 4.9, xarray 2023.1): strings must be of variable length, every dimension
 * needs a scale, fletcher32 breaks strings.  Creation order keeps the order of
 * columns; times of objects are not tracked, so that equal tables are equal bytes. */
#include "config.h"

#include "harness/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>
#include <hdf5_hl.h>

#include "harness/grow.h"
#include "harness/write.h"

/* ---------------------------------------------------------------- the table */
nmb__store *
nmb__store_new(nmb_run *run, int ncell)
{
  nmb__store *s = NMB_NEW(run, nmb__store, 1);
  s->run = run;
  s->ncell = ncell;
  s->name = s->title = s->config = "";
  return s;
}

int
nmb__store_dim(const nmb__store *s, const char *name)
{
  for (int i = 0; i < s->ndim; i++)
    if (!strcmp(s->dim[i].name, name))
      return i;
  return -1;
}

int
nmb__store_dim_add(nmb__store *s, const char *name)
{
  const int old = nmb__store_dim(s, name);
  if (old >= 0)
    return old;
  s->dim = nmb__grow(s->run, s->dim, s->ndim, &s->cdim, sizeof *s->dim);
  s->dim[s->ndim] = (nmb__dim){.name = nmb_strdup(s->run, name)};
  return s->ndim++;
}

int
nmb__dim_find(const nmb__dim *d, const char *label)
{
  for (int i = 0; i < d->n; i++)
    if (!strcmp(d->label[i], label))
      return i;
  return -1;
}

int
nmb__dim_add(nmb__store *s, int dim, const char *label)
{
  nmb__dim *d = &s->dim[dim];
  const int old = nmb__dim_find(d, label);
  if (old >= 0)
    return old;
  d->label = nmb__grow(s->run, d->label, d->n, &d->cap, sizeof *d->label);
  d->label[d->n] = nmb_strdup(s->run, label);
  return d->n++;
}

int
nmb__col_width(const nmb__store *s, const nmb__col *c)
{
  int n = 1;
  for (int i = 0; i < c->ndim; i++)
    n *= s->dim[c->dim[i]].n;
  return n;
}

nmb__col *
nmb__store_col_add(nmb__store *s, nmb__coltype type, const char *name, int ndim,
                   const int *dim)
{
  s->col = nmb__grow(s->run, s->col, s->ncol, &s->ccol, sizeof *s->col);
  nmb__col *c = &s->col[s->ncol++];
  *c = (nmb__col){.name = nmb_strdup(s->run, name), .type = type, .ndim = ndim};
  c->unit = c->better = c->help = "";
  for (int i = 0; i < ndim; i++)
    c->dim[i] = dim[i];
  const size_t n = (size_t)s->ncell * (size_t)nmb__col_width(s, c);
  if (type == NMB__TEXT) {
    c->text = NMB_NEW(s->run, const char *, n);
    for (size_t i = 0; i < n; i++)
      c->text[i] = "";
  } else {
    c->num = NMB_NEW(s->run, double, n);
    for (size_t i = 0; i < n; i++)
      c->num[i] = NAN;
  }
  return c;
}

void
nmb__store_fact_add(nmb__store *s, const char *name, const char *value)
{
  s->fact = nmb__grow(s->run, s->fact, s->nfact, &s->cfact, sizeof *s->fact);
  s->fact[s->nfact++] = (nmb__fact){nmb_strdup(s->run, name), nmb_strdup(s->run, value)};
}

const nmb__col *
nmb__store_col(const nmb__store *s, const char *name)
{
  for (int i = 0; i < s->ncol; i++)
    if (!strcmp(s->col[i].name, name))
      return &s->col[i];
  return NULL;
}

const nmb__col *
nmb__store_parts(const nmb__store *s, const char *metric, const char *dim0,
                 const char *dim1)
{
  const char *name = dim1 ? nmb_format(s->run, "%s_by_%s_%s", metric, dim0, dim1)
                          : nmb_format(s->run, "%s_by_%s", metric, dim0);
  return nmb__store_col(s, name);
}

const char *
nmb__store_text(const nmb__store *s, const char *col, int cell)
{
  const nmb__col *c = nmb__store_col(s, col);
  return c && c->type == NMB__TEXT ? c->text[cell] : "";
}

double
nmb__store_num(const nmb__store *s, const char *col, int cell)
{
  const nmb__col *c = nmb__store_col(s, col);
  return c && c->type != NMB__TEXT && c->ndim == 0 ? c->num[cell] : NAN;
}

double
nmb__col_part(const nmb__store *s, const nmb__col *c, int cell, int a, int b)
{
  const int w = nmb__col_width(s, c);
  const int at = c->ndim == 2 ? a * s->dim[c->dim[1]].n + b : a;
  return c->num[(size_t)cell * (size_t)w + (size_t)at];
}

bool
nmb__store_in_sweep(const nmb__store *s, int cell, const char *sweep)
{
  const char *at = nmb__store_text(s, "sweep", cell);
  const size_t n = strlen(sweep);
  while (*at) {
    const size_t len = strcspn(at, " ");
    if (len == n && !memcmp(at, sweep, n))
      return true;
    at += len + (at[len] == ' ');
  }
  return false;
}

const char *
nmb__store_fact(const nmb__store *s, const char *name)
{
  for (int i = 0; i < s->nfact; i++)
    if (!strcmp(s->fact[i].name, name))
      return s->fact[i].value;
  return "";
}

/* ------------------------------------------------------------------ writing */
typedef struct writer {
  const nmb__store *s;
  hid_t file, text; /* text: type of variable-length UTF-8 strings */
  hid_t cell;       /* the scale of dimension cell */
  hid_t *scale;     /* of the label dimensions */
  bool bad;         /* some call failed; later ones are harmless */
} writer;

static hid_t
check(writer *w, hid_t id)
{
  w->bad |= id < 0;
  return id;
}

static void
attr_text(writer *w, hid_t at, const char *name, const char *value)
{
  const hid_t space = check(w, H5Screate(H5S_SCALAR));
  const hid_t a =
      check(w, H5Acreate2(at, name, w->text, space, H5P_DEFAULT, H5P_DEFAULT));
  check(w, H5Awrite(a, w->text, &value));
  H5Aclose(a);
  H5Sclose(space);
}

static void
attr_whole(writer *w, hid_t at, const char *name, int64_t value)
{
  const hid_t space = check(w, H5Screate(H5S_SCALAR));
  const hid_t a =
      check(w, H5Acreate2(at, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
  check(w, H5Awrite(a, H5T_NATIVE_INT64, &value));
  H5Aclose(a);
  H5Sclose(space);
}

/* A dataset of up to three dimensions; compressed in chunks of about 64 KiB if it
 * holds numbers and is worth it. */
static hid_t
dataset(writer *w, hid_t at, const char *name, hid_t type, int rank, const hsize_t *dim)
{
  const hid_t space = check(w, H5Screate_simple(rank, dim, NULL));
  const hid_t plist = check(w, H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(plist, 0);
  H5Pset_attr_creation_order(plist, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  hsize_t row = 8;
  for (int i = 1; i < rank; i++)
    row *= dim[i];
  if (type != w->text && dim[0] * row >= 4096) {
    hsize_t chunk[3] = {65536 / row ? 65536 / row : 1, rank > 1 ? dim[1] : 0,
                        rank > 2 ? dim[2] : 0};
    if (chunk[0] > dim[0])
      chunk[0] = dim[0];
    H5Pset_chunk(plist, rank, chunk);
    H5Pset_shuffle(plist);
    H5Pset_deflate(plist, 4);
  }
  const hid_t d =
      check(w, H5Dcreate2(at, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT));
  H5Pclose(plist);
  H5Sclose(space);
  return d;
}

static void
write_scales(writer *w)
{
  const nmb__store *s = w->s;
  hsize_t n = (hsize_t)s->ncell;
  int64_t *index = nmb__xrealloc(NULL, (size_t)n, sizeof *index);
  for (int i = 0; i < s->ncell; i++)
    index[i] = i;
  w->cell = dataset(w, w->file, "cell", H5T_STD_I64LE, 1, &n);
  check(w, H5Dwrite(w->cell, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, index));
  free(index);
  check(w, H5DSset_scale(w->cell, "cell"));
  attr_text(w, w->cell, "long_name", "row of the sweep");
  for (int i = 0; i < s->ndim; i++) {
    n = (hsize_t)s->dim[i].n;
    w->scale[i] = dataset(w, w->file, s->dim[i].name, w->text, 1, &n);
    check(w,
          H5Dwrite(w->scale[i], w->text, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->dim[i].label));
    check(w, H5DSset_scale(w->scale[i], s->dim[i].name));
  }
}

static void
write_col(writer *w, hid_t at, const nmb__col *c)
{
  const nmb__store *s = w->s;
  hsize_t dim[3] = {(hsize_t)s->ncell, 0, 0};
  for (int i = 0; i < c->ndim; i++)
    dim[i + 1] = (hsize_t)s->dim[c->dim[i]].n;
  const hid_t type = c->type == NMB__TEXT    ? w->text
                     : c->type == NMB__WHOLE ? H5T_STD_I64LE
                                             : H5T_IEEE_F64LE;
  const hid_t d = dataset(w, at, c->name, type, c->ndim + 1, dim);
  if (c->type == NMB__TEXT)
    check(w, H5Dwrite(d, w->text, H5S_ALL, H5S_ALL, H5P_DEFAULT, c->text));
  else
    check(w, H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, c->num));
  check(w, H5DSattach_scale(d, w->cell, 0));
  for (int i = 0; i < c->ndim; i++)
    check(w, H5DSattach_scale(d, w->scale[c->dim[i]], (unsigned)i + 1));
  if (*c->unit)
    attr_text(w, d, "units", c->unit);
  if (*c->help)
    attr_text(w, d, "long_name", c->help);
  if (*c->better)
    attr_text(w, d, "better", c->better);
  H5Dclose(d);
}

static hid_t
group(writer *w, const char *name)
{
  const hid_t plist = check(w, H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_obj_track_times(plist, 0);
  H5Pset_link_creation_order(plist, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(plist, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  const hid_t g = check(w, H5Gcreate2(w->file, name, H5P_DEFAULT, plist, H5P_DEFAULT));
  H5Pclose(plist);
  return g;
}

static void
write_table(writer *w)
{
  const nmb__store *s = w->s;
  attr_text(w, w->file, "Conventions", "CF-1.10 nmbench-1");
  attr_whole(w, w->file, "schema", NMB__STORE_SCHEMA);
  attr_text(w, w->file, "name", s->name);
  attr_text(w, w->file, "title", s->title);
  write_scales(w);
  const hid_t host = group(w, "host"), prov = group(w, "provenance");
  for (int i = 0; i < s->ncol; i++)
    write_col(w, s->col[i].host ? host : w->file, &s->col[i]);
  attr_text(w, prov, "config", s->config);
  for (int i = 0; i < s->nfact; i++)
    attr_text(w, prov, s->fact[i].name, s->fact[i].value);
  H5Gclose(host);
  H5Gclose(prov);
  H5Dclose(w->cell);
  for (int i = 0; i < s->ndim; i++)
    H5Dclose(w->scale[i]);
}

static hid_t
text_type(void)
{
  const hid_t t = H5Tcopy(H5T_C_S1);
  H5Tset_size(t, H5T_VARIABLE);
  H5Tset_cset(t, H5T_CSET_UTF8);
  return t;
}

/* The bytes of the file; NULL if HDF5 failed. */
static void *
file_image(const nmb__store *s, const char *path, size_t *len)
{
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_fapl_core(fapl, (size_t)1 << 20, 0);
  H5Pset_libver_bounds(fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  H5Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_obj_track_times(fcpl, 0);
  hid_t scale[64] = {0};
  writer w = {.s = s, .text = text_type(), .scale = scale};
  w.bad = s->ndim > (int)(sizeof scale / sizeof *scale);
  w.file = check(&w, H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl));
  if (!w.bad)
    write_table(&w);
  void *image = NULL;
  check(&w, H5Fflush(w.file, H5F_SCOPE_GLOBAL));
  const ssize_t n = w.bad ? -1 : H5Fget_file_image(w.file, NULL, 0);
  if (n > 0) {
    image = nmb__xrealloc(NULL, (size_t)n, 1);
    *len = (size_t)n;
    if (H5Fget_file_image(w.file, image, (size_t)n) != n) {
      free(image);
      image = NULL;
    }
  }
  H5Fclose(w.file);
  H5Tclose(w.text);
  H5Pclose(fapl);
  H5Pclose(fcpl);
  return image;
}

static nmb_status
replace_file(nmb_run *run, const char *path, const void *bytes, size_t n)
{
  const char *tmp = nmb_format(run, "%s.tmp", path);
  const int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot create %s: %s", tmp, strerror(errno));
  bool ok = nmb__write_all(fd, bytes, n) && fsync(fd) == 0;
  ok = close(fd) == 0 && ok;
  ok = ok && rename(tmp, path) == 0;
  if (ok)
    return NMB_OK;
  const int why = errno;
  unlink(tmp);
  return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot write %s: %s", path, strerror(why));
}

nmb_status
nmb__store_write(const nmb__store *s, const char *path)
{
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  size_t n = 0;
  void *image = file_image(s, path, &n);
  if (!image)
    return nmb_fail(s->run, NMB_IO, NMB_NOLOC, "HDF5 cannot build the table for %s",
                    path);
  const nmb_status st = replace_file(s->run, path, image, n);
  free(image);
  return st;
}

/* ------------------------------------------------------------------ reading */
typedef struct reader {
  nmb__store *s;
  hid_t text;
  hid_t at;
  bool host, labels, bad; /* labels: first pass, which takes the scales only */
} reader;

static const char *
read_attr(reader *r, hid_t at, const char *name)
{
  const char *out = "";
  if (H5Aexists(at, name) <= 0)
    return out;
  const hid_t a = H5Aopen(at, name, H5P_DEFAULT);
  const hid_t type = H5Aget_type(a);
  char *v = NULL;
  if (H5Tis_variable_str(type) > 0 && H5Aread(a, r->text, &v) >= 0 && v) {
    out = nmb_strdup(r->s->run, v);
    H5free_memory(v);
  }
  H5Tclose(type);
  H5Aclose(a);
  return out;
}

/* Strings of a dataset, copied into the run. */
static bool
read_texts(reader *r, hid_t d, size_t n, const char **out)
{
  char **v = nmb__xrealloc(NULL, n, sizeof *v);
  bool ok = H5Dread(d, r->text, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0;
  for (size_t i = 0; ok && i < n; i++) {
    out[i] = nmb_strdup(r->s->run, v[i] ? v[i] : "");
    H5free_memory(v[i]);
  }
  free(v);
  return ok;
}

static herr_t
scale_name(hid_t d, unsigned dim, hid_t scale, void *out)
{
  (void)d;
  (void)dim;
  return H5DSget_scale_name(scale, out, 64) > 0 ? 1 : 0;
}

/* The label dimensions of a dataset; false if one is none of ours. */
static bool
read_dims(reader *r, hid_t d, int rank, int *dim)
{
  for (int i = 1; i < rank; i++) {
    char name[64] = "";
    if (H5DSiterate_scales(d, (unsigned)i, NULL, scale_name, name) <= 0)
      return false;
    dim[i - 1] = nmb__store_dim(r->s, name);
    if (dim[i - 1] < 0)
      return false;
  }
  return true;
}

static void
read_labels(reader *r, hid_t d, const char *name, size_t n)
{
  nmb__store *s = r->s;
  if (!strcmp(name, "cell")) {
    s->ncell = (int)n;
    return;
  }
  const char **label = NMB_NEW(s->run, const char *, n);
  if (!read_texts(r, d, n, label)) {
    r->bad = true;
    return;
  }
  const int dim = nmb__store_dim_add(s, name);
  for (size_t i = 0; i < n; i++)
    nmb__dim_add(s, dim, label[i]);
}

static void
read_col(reader *r, hid_t d, const char *name, int rank, const hsize_t *dim)
{
  nmb__store *s = r->s;
  int label[2] = {0, 0};
  const hid_t type = H5Dget_type(d);
  const H5T_class_t cls = H5Tget_class(type);
  const nmb__coltype ct = cls == H5T_STRING    ? NMB__TEXT
                          : cls == H5T_INTEGER ? NMB__WHOLE
                                               : NMB__REAL;
  H5Tclose(type);
  if (dim[0] != (hsize_t)s->ncell || rank > 3 || !read_dims(r, d, rank, label)) {
    r->bad = true;
    return;
  }
  nmb__col *c = nmb__store_col_add(s, ct, name, rank - 1, label);
  c->host = r->host;
  c->unit = read_attr(r, d, "units");
  c->help = read_attr(r, d, "long_name");
  c->better = read_attr(r, d, "better");
  if (ct == NMB__TEXT)
    r->bad |= !read_texts(r, d, (size_t)s->ncell, c->text);
  else
    r->bad |= H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, c->num) < 0;
}

static herr_t
visit(hid_t at, const char *name, const H5L_info_t *info, void *arg)
{
  (void)info;
  reader *r = arg;
  const hid_t d = H5Oopen(at, name, H5P_DEFAULT);
  if (H5Iget_type(d) == H5I_DATASET) {
    const hid_t space = H5Dget_space(d);
    hsize_t dim[H5S_MAX_RANK] = {0};
    const int rank = H5Sget_simple_extent_dims(space, dim, NULL);
    H5Sclose(space);
    const bool scale = H5DSis_scale(d) > 0;
    if (scale && r->labels)
      read_labels(r, d, name, (size_t)dim[0]);
    else if (!scale && !r->labels && rank >= 1)
      read_col(r, d, name, rank, dim);
  }
  H5Oclose(d);
  return r->bad ? -1 : 0;
}

static void
read_group(reader *r, hid_t file, const char *name, bool host, bool labels)
{
  const hid_t g = H5Gopen2(file, name, H5P_DEFAULT);
  r->host = host;
  r->labels = labels;
  hsize_t at = 0;
  if (g < 0 || H5Literate(g, H5_INDEX_CRT_ORDER, H5_ITER_INC, &at, visit, r) < 0)
    r->bad = true;
  H5Gclose(g);
}

static herr_t
visit_fact(hid_t at, const char *name, const H5A_info_t *info, void *arg)
{
  (void)info;
  reader *r = arg;
  const char *value = read_attr(r, at, name);
  if (!strcmp(name, "config"))
    r->s->config = value;
  else
    nmb__store_fact_add(r->s, name, value);
  return 0;
}

static void
read_file(reader *r, hid_t file)
{
  r->s->name = read_attr(r, file, "name");
  r->s->title = read_attr(r, file, "title");
  read_group(r, file, "/", false, true);
  if (!r->bad)
    read_group(r, file, "/", false, false);
  if (!r->bad)
    read_group(r, file, "/host", true, false);
  const hid_t prov = H5Gopen2(file, "/provenance", H5P_DEFAULT);
  hsize_t at = 0;
  if (prov < 0 ||
      H5Aiterate2(prov, H5_INDEX_CRT_ORDER, H5_ITER_INC, &at, visit_fact, r) < 0)
    r->bad = true;
  H5Gclose(prov);
}

static int64_t
file_schema(hid_t file)
{
  int64_t v = -1;
  const hid_t a =
      H5Aexists(file, "schema") > 0 ? H5Aopen(file, "schema", H5P_DEFAULT) : -1;
  if (a >= 0)
    H5Aread(a, H5T_NATIVE_INT64, &v);
  H5Aclose(a);
  return v;
}

nmb_status
nmb__store_read(nmb_run *run, const char *path, nmb__store **out)
{
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  const nmb_loc loc = {path, 0, 0};
  if (access(path, R_OK) != 0)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot read %s: %s", path, strerror(errno));
  struct stat st; /* opening a pipe would wait for a writer */
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
    return nmb_fail(run, NMB_BADINPUT, loc, "not an ordinary file, expected HDF5 results");
  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0)
    return nmb_fail(run, NMB_BADINPUT, loc, "not an HDF5 file, or damaged");
  const int64_t schema = file_schema(file);
  if (schema != NMB__STORE_SCHEMA) {
    H5Fclose(file);
    return nmb_fail(run, NMB_BADINPUT, loc,
                    schema < 0 ? "not a result file of nmbench (no schema)"
                               : "results of schema %d, this nmbench reads %d",
                    (int)schema, NMB__STORE_SCHEMA);
  }
  reader r = {.s = nmb__store_new(run, 0), .text = text_type()};
  read_file(&r, file);
  H5Tclose(r.text);
  H5Fclose(file);
  if (r.bad)
    return nmb_fail(run, NMB_BADINPUT, loc, "a table of this result file is damaged");
  *out = r.s;
  return NMB_OK;
}
