// Preloaded, delays the opening of files below $SLOW_OPEN_FOLDER by $SLOW_OPEN_MS, as a busy network
// file system does.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void delay(const char* path) {
  const char* folder = getenv("SLOW_OPEN_FOLDER");
  const char* text = getenv("SLOW_OPEN_MS");
  if (folder == NULL || text == NULL || strncmp(path, folder, strlen(folder)) != 0) {
    return;
  }
  const long milliseconds = atol(text);
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

#define DELAYED(name)                                                             \
  int name(const char* path, int flags, ...) {                                    \
    static int (*real)(const char*, int, ...);                                    \
    va_list rest;                                                                 \
    mode_t mode = 0;                                                              \
    if (flags & O_CREAT) {                                                        \
      va_start(rest, flags);                                                      \
      mode = va_arg(rest, mode_t);                                                \
      va_end(rest);                                                               \
    }                                                                             \
    if (real == NULL) real = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name); \
    delay(path);                                                                  \
    return real(path, flags, mode);                                               \
  }

DELAYED(open)
DELAYED(open64)
