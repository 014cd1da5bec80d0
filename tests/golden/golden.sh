#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Every golden text of the source folder.
exec tests/golden/golden "${srcdir:-.}"/tests/golden/*.nmb
