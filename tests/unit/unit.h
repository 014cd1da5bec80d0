/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A suite in one table: UNIT_MAIN("prog", {"erasing an op ...", test_erase}, ...) */
#ifndef UNIT_H
#define UNIT_H
#include <CUnit/Basic.h>
#define UNIT_MAIN(suite, ...)                                                  \
  int main(void)                                                               \
  {                                                                            \
    static const struct {                                                      \
      const char *name;                                                        \
      void (*fn)(void);                                                        \
    } test[] = {__VA_ARGS__};                                                  \
    if (CU_initialize_registry() != CUE_SUCCESS)                               \
      return 99;                                                               \
    CU_pSuite s = CU_add_suite(suite, NULL, NULL);                             \
    for (size_t i = 0; i < sizeof test / sizeof *test; i++)                    \
      if (!CU_add_test(s, test[i].name, test[i].fn))                           \
        return 99;                                                             \
    CU_basic_set_mode(CU_BRM_VERBOSE);                                         \
    CU_basic_run_tests();                                                      \
    const unsigned bad = CU_get_number_of_failures();                          \
    const unsigned ran = CU_get_number_of_tests_run();                         \
    CU_cleanup_registry();                                                     \
    return bad != 0 || ran == 0;                                               \
  }
#endif
