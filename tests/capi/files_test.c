/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>

#include "check.h"
#include "parts.h"

enum { kBytes = 3 << 20, kOffset = 1001 };

static berth_file* open_file(berth_status (*open)(const char*, int, berth_file**),
                             const char* path) {
  berth_file* file = NULL;
  CHECK_OK(open(path, BERTH_FILE_AUTOMATIC, &file));
  return file;
}

static void end(berth_transfer* transfer) {
  size_t bytes = 0;
  CHECK_OK(berth_transfer_wait(transfer));
  CHECK_OK(berth_transfer_progress(transfer, &bytes, NULL));
  CHECK(bytes == kBytes);
  berth_transfer_release(transfer);
}

static void bytes_survive_the_way_through_a_file(const struct machine* machine, const char* path) {
  unsigned char* const host = malloc(kBytes);
  unsigned char* const back = calloc(1, kBytes);
  CHECK(host != NULL && back != NULL);
  for (size_t i = 0; i < kBytes; ++i) host[i] = (unsigned char)(i * 11 + i / 251);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_copy_async(machine->runtime, data, host, kBytes, machine->stream));

  berth_transfer* transfer = NULL;
  berth_file* file = open_file(&berth_file_open_to_write, path);
  CHECK_OK(berth_file_write(file, host, kOffset, 0));
  CHECK_OK(berth_transfer_start_to_file(machine->runtime, file, kOffset, data, kBytes,
                                        machine->stream, NULL, &transfer));
  end(transfer);
  CHECK_OK(berth_file_sync(file));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "open to write", berth_file_read(file, back, 1, 0));
  berth_file_close(file);

  file = open_file(&berth_file_open_to_read, path);
  uint64_t size = 0;
  CHECK_OK(berth_file_get_size(file, &size));
  CHECK(size == kOffset + kBytes);
  CHECK_OK(berth_file_read(file, back, kBytes, kOffset));
  CHECK(memcmp(host, back, kBytes) == 0);
  CHECK_OK(berth_fill_async(machine->runtime, data, 0, kBytes, machine->stream));
  CHECK_OK(berth_transfer_start_from_file(machine->runtime, data, file, kOffset, kBytes,
                                          machine->stream, NULL, &transfer));
  berth_file_close(file);  // the transfer has it for itself
  end(transfer);
  memset(back, 0, kBytes);
  CHECK_OK(berth_copy_sync(machine->runtime, back, data, kBytes, machine->stream));
  CHECK(memcmp(host, back, kBytes) == 0);

  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  free(back);
  free(host);
}

static void what_a_file_cannot_do_has_a_status(const struct machine* machine, const char* path) {
  berth_file* file = NULL;
  CHECK_FAILS(BERTH_FILE, "directory", berth_file_open_to_read("/", BERTH_FILE_CACHED, &file));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "caching", berth_file_open_to_read(path, 3, &file));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "caching", berth_file_open_to_write(path, -1, &file));
  CHECK(file == NULL);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  file = open_file(&berth_file_open_to_read, path);
  CHECK_FAILS(BERTH_FILE, "ends at",
              berth_transfer_start_from_file(machine->runtime, data, file, kOffset + 1, kBytes,
                                             machine->stream, NULL, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "open to read",
              berth_transfer_start_to_file(machine->runtime, file, 0, data, kBytes, machine->stream,
                                           NULL, NULL));
  berth_file_close(file);
  file = open_file(&berth_file_open_to_write, "/dev/full");
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_transfer_start_to_file(machine->runtime, file, 0, data, kBytes, machine->stream,
                                        NULL, &transfer));
  CHECK_FAILS(BERTH_FILE, "/dev/full", berth_transfer_wait(transfer));
  berth_transfer_release(transfer);
  berth_file_close(file);
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

void test_files(void) {
  struct machine machine = open_machine(NULL);
  const char* const folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/berth-files-XXXXXX", folder != NULL ? folder : "/tmp");
  const int made = mkstemp(path);
  CHECK(made >= 0);
  close(made);
  bytes_survive_the_way_through_a_file(&machine, path);
  what_a_file_cannot_do_has_a_status(&machine, path);
  CHECK(unlink(path) == 0);
  close_machine(&machine);
}
