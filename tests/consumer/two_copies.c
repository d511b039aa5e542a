/* SPDX-License-Identifier: Apache-2.0 */
// An outside program with libberth twice: the one that it links, and a copy of the file, which it
// loads from the path that it is given, as a plug-in of another vendor would.
#include <berth/berth.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (condition) break;                                                          \
    fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
    exit(1);                                                                       \
  } while (0)

/// What the program uses of one of them.
struct library {
  const char* (*last_error)(void);
  berth_status (*create)(const berth_runtime_options*, berth_runtime**);
  void (*destroy)(berth_runtime*);
  berth_status (*acquire)(berth_runtime*, berth_device, int, berth_stream*);
  berth_status (*release)(berth_runtime*, berth_stream);
  berth_status (*get_memory)(berth_runtime*, berth_device, berth_allocator**);
  berth_status (*allocate)(berth_allocator*, size_t, berth_stream, void**);
  berth_status (*deallocate)(berth_allocator*, void*);
  berth_status (*copy)(berth_runtime*, void*, const void*, size_t, berth_stream);
  berth_runtime* runtime;
  berth_allocator* memory;
  berth_stream stream;
  void* block;
};

static void* find(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  REQUIRE(symbol != NULL);
  return symbol;
}

#define FIND(member, name)                           \
  do {                                               \
    void* const symbol = find(loaded, #name);        \
    memcpy(&library.member, &symbol, sizeof symbol); \
  } while (0)

static struct library linked_library(void) {
  const struct library library = {
      .last_error = berth_last_error_message,
      .create = berth_runtime_create,
      .destroy = berth_runtime_destroy,
      .acquire = berth_stream_acquire,
      .release = berth_stream_release,
      .get_memory = berth_allocator_get_device,
      .allocate = berth_allocator_allocate,
      .deallocate = berth_allocator_deallocate,
      .copy = berth_copy_sync,
  };
  return library;
}

static struct library loaded_library(void* loaded) {
  struct library library = {0};
  FIND(last_error, berth_last_error_message);
  FIND(create, berth_runtime_create);
  FIND(destroy, berth_runtime_destroy);
  FIND(acquire, berth_stream_acquire);
  FIND(release, berth_stream_release);
  FIND(get_memory, berth_allocator_get_device);
  FIND(allocate, berth_allocator_allocate);
  FIND(deallocate, berth_allocator_deallocate);
  FIND(copy, berth_copy_sync);
  return library;
}

static void begin(struct library* library) {
  REQUIRE(library->create(NULL, &library->runtime) == BERTH_OK);
  const berth_device device = berth_device_cuda(0);
  REQUIRE(library->acquire(library->runtime, device, 0, &library->stream) == BERTH_OK);
  REQUIRE(library->get_memory(library->runtime, device, &library->memory) == BERTH_OK);
  REQUIRE(library->allocate(library->memory, 4096, library->stream, &library->block) == BERTH_OK);
}

static void end(struct library* library) {
  REQUIRE(library->deallocate(library->memory, library->block) == BERTH_OK);
  REQUIRE(library->release(library->runtime, library->stream) == BERTH_OK);
  library->destroy(library->runtime);
}

static void check_bytes(struct library* library, const char* sent) {
  char received[16] = "";
  REQUIRE(strlen(sent) < sizeof received);
  REQUIRE(library->copy(library->runtime, library->block, sent, sizeof received, library->stream) ==
          BERTH_OK);
  REQUIRE(library->copy(library->runtime, received, library->block, sizeof received,
                        library->stream) == BERTH_OK);
  REQUIRE(strcmp(received, sent) == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  void* const copy = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (copy == NULL) fprintf(stderr, "%s\n", dlerror());
  REQUIRE(copy != NULL);
  struct library linked = linked_library();
  struct library loaded = loaded_library(copy);
  REQUIRE(linked.create != loaded.create);

  begin(&linked);
  begin(&loaded);
  REQUIRE(linked.block != loaded.block);
  check_bytes(&linked, "of the linked  ");
  check_bytes(&loaded, "of the loaded  ");
  // Neither knows the other's blocks, nor its errors.
  REQUIRE(linked.deallocate(linked.memory, loaded.block) == BERTH_INVALID_ARGUMENT);
  REQUIRE(strstr(linked.last_error(), "not memory of this allocator") != NULL);
  REQUIRE(strcmp(loaded.last_error(), "") == 0);
  REQUIRE(loaded.deallocate(loaded.memory, linked.block) == BERTH_INVALID_ARGUMENT);
  end(&loaded);
  check_bytes(&linked, "still there    ");
  REQUIRE(dlclose(copy) == 0);
  check_bytes(&linked, "and after that ");
  end(&linked);
  puts("two libraries");
  return 0;
}
