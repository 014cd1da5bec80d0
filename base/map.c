/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h" /* first: names outside of C11 */

#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool
nmb__is_file(const char *path)
{
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode);
}

bool
nmb__is_folder(const char *path)
{
  struct stat st;
  return !stat(path, &st) && S_ISDIR(st.st_mode);
}

nmb_status
nmb__map(nmb_run *run, const char *path, const uint8_t **at, size_t *n)
{
  const nmb_loc loc = {path, 0, 0};
  struct stat st = {0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st)) {
    const nmb_status s = nmb_fail(run, NMB_IO, loc, "%s", strerror(errno));
    if (fd >= 0)
      close(fd);
    return s;
  }
  const bool ordinary = S_ISREG(st.st_mode) && st.st_size > 0;
  void *m = MAP_FAILED;
  if (ordinary)
    m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int why = errno;
  close(fd);
  if (!ordinary)
    return nmb_fail(run, NMB_BADINPUT, loc, "found %s, expected a file of weights",
                    S_ISREG(st.st_mode) ? "an empty file" : "no ordinary file");
  if (m == MAP_FAILED)
    return nmb_fail(run, NMB_IO, loc, "cannot map the file: %s", strerror(why));
  *at = m;
  *n = (size_t)st.st_size;
  return NMB_OK;
}

void
nmb__unmap(const uint8_t *at, size_t n)
{
  munmap((void *)(uintptr_t)at, n);
}
