/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h"

#include "harness/write.h"

#include <errno.h>
#include <unistd.h>

bool
nmb__write_all(int fd, const char *p, size_t n)
{
  while (n) {
    const ssize_t k = write(fd, p, n);
    if (k < 0 && errno != EINTR)
      return false;
    if (k > 0) {
      p += k;
      n -= (size_t)k;
    }
  }
  return true;
}
