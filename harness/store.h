/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Results: a table with one row per cell, in memory and as an HDF5 file.
 *
 * Layout of the file (netCDF-4 conventions, so that xarray, netCDF, h5py and h5dump
 * read it): at the root one variable per column along the dimension `cell`; a
 * breakdown has one or two more dimensions, each with its labels as a string
 * variable of the dimension's name.  Group /host holds what depends on the host
 * that ran the cell; group /provenance has attributes only.
 *
 * Columns that every file has:
 *   text  key model machine pipeline ablation slot phase routing sweep simulators
 *         status reason passes
 *   whole batch context seed           real  skew
 *   host  log (text), compile_time, simulate_time, host_peak_bytes, wall_time
 * `sweep` names all sweeps that hold the cell, with a space between; `passes` is the
 * pipeline's text with every default filled in.  Metrics are columns of the name
 * that the simulator declares.  A breakdown of metric M over labels (L) or (L1,L2) is
 * the column M_by_L or M_by_L1_L2, e.g. time_by_engine_cause, energy_by_part.
 *
 * Everything is owned by the run that read or built the table. */
#ifndef NMB__STORE_H
#define NMB__STORE_H

#include "base/run.h"

#define NMB__STORE_SCHEMA 1

/* Labels of a breakdown's dimension: engine, cause, memory, part, class, ... */
typedef struct nmb__dim {
  const char *name;
  int n, cap;
  const char **label;
} nmb__dim;

typedef enum nmb__coltype { NMB__TEXT, NMB__WHOLE, NMB__REAL } nmb__coltype;

typedef struct nmb__col {
  const char *name;
  const char *unit, *better, *help; /* better: "less", "more" or "" */
  nmb__coltype type;
  bool host;         /* depends on the host: stands in /host */
  int ndim;          /* dimensions besides cell */
  int dim[2];        /* rows of nmb__store.dim */
  const char **text; /* [ncell] if NMB__TEXT, never NULL inside */
  double *num;       /* [ncell][dim 0][dim 1] otherwise; NaN: no value */
} nmb__col;

typedef struct nmb__fact { /* an attribute with text */
  const char *name, *value;
} nmb__fact;

typedef struct nmb__store {
  nmb_run *run;
  const char *name, *title; /* of the experiment */
  const char *config;       /* its file, includes written out */
  int ncell, ndim, ncol, nfact;
  int cdim, ccol, cfact; /* capacities */
  nmb__dim *dim;
  nmb__col *col;
  nmb__fact *fact; /* provenance */
} nmb__store;

/* ---------------------------------------------------------------- reading */
nmb_status nmb__store_read(nmb_run *, const char *path, nmb__store **out);
const nmb__col *nmb__store_col(const nmb__store *, const char *name); /* NULL if none */
/* The breakdown of `metric` by `dim0` and (optional) `dim1`; NULL if none. */
const nmb__col *nmb__store_parts(const nmb__store *, const char *metric, const char *dim0,
                                 const char *dim1);
/* "" where the file has no such column. */
const char *nmb__store_text(const nmb__store *, const char *col, int cell);
/* NaN where the file has no such column or the cell no such value. */
double nmb__store_num(const nmb__store *, const char *col, int cell);
/* NaN where there is no value; b is ignored if the column has one label only. */
double nmb__col_part(const nmb__store *, const nmb__col *, int cell, int a, int b);
int nmb__col_width(const nmb__store *, const nmb__col *); /* values per cell */
int nmb__store_dim(const nmb__store *, const char *name); /* -1 if none */
int nmb__dim_find(const nmb__dim *, const char *label);   /* -1 if none */
bool nmb__store_in_sweep(const nmb__store *, int cell, const char *sweep);
const char *nmb__store_fact(const nmb__store *, const char *name); /* "" if none */

/* ---------------------------------------------------------------- writing */
nmb__store *nmb__store_new(nmb_run *, int ncell);
int nmb__store_dim_add(nmb__store *, const char *name); /* the dimension, old or new */
int nmb__dim_add(nmb__store *, int dim, const char *label); /* the label, old or new */
/* All labels must stand before a column that uses them is added.  Values start as
 * NaN or "".  The pointer holds until the next column is added. */
nmb__col *nmb__store_col_add(nmb__store *, nmb__coltype, const char *name, int ndim,
                             const int *dim);
void nmb__store_fact_add(nmb__store *, const char *name, const char *value);
/* Writes to a temporary name, then renames, so that `path` is whole or untouched. */
nmb_status nmb__store_write(const nmb__store *, const char *path);
#endif
