/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as the index of two shards that are right. */
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#include "frontend/wfile.h"

static void
write_file(nmb_run *run, const char *path, const void *data, size_t size)
{
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, size, f) != size || fclose(f))
    die(run, "cannot write");
}

/* One tensor of one float. */
static void
shard_write(nmb_run *run, const char *path, const char *name)
{
  const char *head = nmb_format(
      run, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", name);
  bytes *f = NMB_NEW(run, bytes, 1);
  put(f, strlen(head), 8);
  put_bytes(f, head);
  put(f, 0, 4);
  write_file(run, path, f->b, f->n);
}

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  const char *dir = nmb_format(run, "fuzz_index.%d", (int)getpid()),
             *one = nmb_format(run, "%s/one", dir), *two = nmb_format(run, "%s/two", dir),
             *index = nmb_format(run, "%s/model.safetensors.index.json", dir);
  nmb__wfile *w = NULL;
  if (mkdir(dir, 0700))
    die(run, "cannot make a folder");
  shard_write(run, one, "a");
  shard_write(run, two, "b");
  write_file(run, index, data, size);
  const nmb_status s = nmb__wfile_open(run, dir, &w);
  if (s == NMB_OK && !nmb__wfile_find(w, "a") && !nmb__wfile_find(w, "b"))
    die(run, "an index without the shards' tensors is taken");
  nmb__wfile_close(w);
  unlink(one);
  unlink(two);
  unlink(index);
  rmdir(dir);
  return s;
}

static void
index_make(bytes *f)
{
  put_bytes(f, "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"a\":\"one\",\"b\":\"two\"}}");
}

static const char *const words[] = {"\"one\"", "\"two\"", "\"../one\"", "\"..\"", "\".\"", "\"/etc/passwd\"",
                                    "\"\"", "\"a\":", "\"b\":", "\"c\":", "null", "1", "[]", "{}",
                                    "[[[[[[[[[[", ",", "}", "\"weight_map\":", "\"\\u0000\"", "\"\\u001b[2J\"", NULL};
static const seed seeds[] = {{"index", index_make}};
static const target index_target = {seeds, sizeof seeds / sizeof *seeds, use, words};
FUZZ_TARGET(index_target)
