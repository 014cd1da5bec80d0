/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weight files: named tensors in mapped files.
 *
 * Nothing is copied: a tensor points into its file, which stays mapped until
 * nmb__wfile_close.  Opening reads the headers only.  Everything that a header says
 * is checked here (sizes, overlaps, doubled names), so that those who read the values
 * need not. */
#ifndef NMB__WFILE_H
#define NMB__WFILE_H

#include "ir/storage.h"

#define NMB__WRANK 8

typedef struct nmb__wtensor {
  const char *name;
  nmb__storage type;
  int rank;
  int64_t dim[NMB__WRANK]; /* the last one lies together in memory */
  int64_t count;           /* elements: the product of dim[] */
  const uint8_t *data;
  uint64_t bytes, offset; /* offset: from where the file counts, for messages */
  const char *file;
} nmb__wtensor;

/* A value of a GGUF header. */
typedef enum nmb__meta_kind {
  NMB__META_INT,
  NMB__META_REAL,
  NMB__META_BOOL,
  NMB__META_TEXT,
  NMB__META_LIST
} nmb__meta_kind;
typedef struct nmb__meta {
  const char *key;
  nmb__meta_kind kind;
  int64_t i;         /* INT, BOOL; an unsigned value beyond 63 bits: the largest */
  double r;          /* INT, REAL */
  const uint8_t *at; /* TEXT: its bytes; LIST: its first element, in the file */
  uint64_t n;        /* TEXT: bytes; LIST: elements */
  uint32_t element;  /* LIST: the file's number of their type */
} nmb__meta;

/* Whose names the tensors have. */
typedef enum nmb__naming { NMB__NAMES_GGUF, NMB__NAMES_HF, NMB__NAMES_RWKV } nmb__naming;

typedef struct nmb__wfile {
  const char *path;
  nmb__naming naming;
  const char *config; /* (optional) path of the config.json beside */
  uint64_t hash;      /* of the headers */
  int ntensor;
  nmb__wtensor *tensor; /* sorted by name */
  int nmeta;
  nmb__meta *meta; /* sorted by key */
  int nmap;
  struct nmb__mapped {
    const uint8_t *at;
    size_t bytes;
    const char *path;
  } * map;
} nmb__wfile;

/* path: a .gguf, .bin (llama2.c, rwkv.cpp) or .safetensors file, a
 * model.safetensors.index.json, or a folder with one of the last two.  What the file
 * is, its first bytes say.  *out lives in the run's arena. */
NMB_API nmb_status nmb__wfile_open(nmb_run *, const char *path, nmb__wfile **out);
/* The same for bytes in memory, which are borrowed: a file of that name holds them. */
NMB_API nmb_status nmb__wfile_bytes(nmb_run *, const char *path, const uint8_t *, size_t,
                                    nmb__wfile **out);
NMB_API void nmb__wfile_close(nmb__wfile *);
/* Is the path one that nmb__wfile_open takes, by its name alone? */
NMB_API bool nmb__wfile_is(const char *path);
/* The file that a path or a name means: what nmbench's own models/weights, or that of a
 * folder of NMB_DATA_PATH, has under the name (in any case, with or without an owner and
 * "--" before it).  NULL: none. */
NMB_API const char *nmb__wfile_named(nmb_run *, const char *name);
/* NULL if there is none. */
NMB_API const nmb__wtensor *nmb__wfile_find(const nmb__wfile *, const char *name);
NMB_API const nmb__meta *nmb__wfile_meta(const nmb__wfile *, const char *key);
/* The text of a value, "" unless it is one; a string of the run. */
NMB_API const char *nmb__meta_text(nmb_run *, const nmb__meta *);
/* Element i of a list: numbers; texts as place and length. */
NMB_API double nmb__meta_number(const nmb__meta *, uint64_t i);

/* ------------------------------------------------- for the readers of formats */
NMB_API nmb_status nmb__map_file(nmb_run *, nmb__wfile *, const char *path,
                                 const uint8_t **at, size_t *bytes);
/* count and bytes of t from its dims and type; fails where they overflow, or where a
 * row is no whole number of blocks. */
NMB_API nmb_status nmb__wtensor_size(nmb_run *, nmb__wtensor *);
/* Room for one more row in a table of n: it doubles at 8, 16, 32, .. */
NMB_API void *nmb__grown(nmb_run *, void *v, int n, size_t size);
NMB_API void nmb__meta_add(nmb_run *, nmb__wfile *, const nmb__meta *);
NMB_API void nmb__meta_int(nmb_run *, nmb__wfile *, const char *key, int64_t);
NMB_API void nmb__meta_string(nmb_run *, nmb__wfile *, const char *key, const char *);
NMB_API void nmb__wtensor_add(nmb_run *, nmb__wfile *, const nmb__wtensor *);
/* Sorts by name; fails for a name that stands twice. */
NMB_API nmb_status nmb__wfile_sort(nmb_run *, nmb__wfile *);
/* Fails if two tensors of one file share bytes. */
NMB_API nmb_status nmb__wfile_apart(nmb_run *, const nmb__wfile *);

NMB_API nmb_status nmb__gguf_read(nmb_run *, nmb__wfile *, const char *file,
                                  const uint8_t *, size_t);
NMB_API nmb_status nmb__safetensors_read(nmb_run *, nmb__wfile *, const char *file,
                                         const uint8_t *, size_t);
NMB_API nmb_status nmb__safetensors_index(nmb_run *, nmb__wfile *, const char *path);
NMB_API nmb_status nmb__llama2_read(nmb_run *, nmb__wfile *, const char *file,
                                    const uint8_t *, size_t);
NMB_API nmb_status nmb__rwkv_read(nmb_run *, nmb__wfile *, const char *file,
                                  const uint8_t *, size_t);
#endif
