// The start of a program by a glibc before 2.34, which leaves the program's constructors to the
// program.
#include <stddef.h>

typedef void (*Initializer)(int, char**, char**);
typedef int (*Main)(int, char**, char**);

extern Initializer __init_array_start[] __attribute__((visibility("hidden")));
extern Initializer __init_array_end[] __attribute__((visibility("hidden")));

static void construct(int argc, char** argv, char** environment) {
  for (Initializer* call = __init_array_start; call != __init_array_end; ++call)
    (*call)(argc, argv, environment);
}

int old_start(Main, int, char**, Initializer, void (*)(void), void (*)(void), void*);
__asm__(".symver old_start, __libc_start_main@GLIBC_2.2.5");

__attribute__((visibility("hidden"))) int __libc_start_main(Main main, int argc, char** argv,
                                                            Initializer construct_none,
                                                            void (*destroy_none)(void),
                                                            void (*end_loader)(void),
                                                            void* stack_end) {
  (void)construct_none, (void)destroy_none;
  return old_start(main, argc, argv, construct, NULL, end_loader, stack_end);
}
