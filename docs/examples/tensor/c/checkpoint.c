/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static berth_status fail(const char* path, const char* what, const char* name) {
  char text[512];
  snprintf(text, sizeof text, "%s: %s%s", path, what, name);
  return berth_last_error_set(BERTH_FILE, text);
}

// Copies between a tensor, wherever it is, and the file.
static berth_status transfer(library* lib, const tensor* t, berth_file* file, uint64_t offset,
                             int writes) {
  berth_stream stream;
  berth_transfer* started = NULL;
  const size_t bytes = tensor_bytes(t);
  float* const numbers = tensor_numbers(lib, t, !writes);
  if (numbers != NULL)
    return writes ? berth_file_write(file, numbers, bytes, offset)
                  : berth_file_read(file, numbers, bytes, offset);
  BERTH_TRY(library_stream(lib, t->device, &stream));
  BERTH_TRY(writes ? berth_transfer_start_to_file(lib->runtime, file, offset, t->data, bytes,
                                                  stream, NULL, &started)
                   : berth_transfer_start_from_file(lib->runtime, t->data, file, offset, bytes,
                                                    stream, NULL, &started));
  const berth_status status = berth_transfer_wait(started);
  berth_transfer_release(started);
  return status;
}

// Writes 8 bytes with the length of the header, and the header: JSON that says what lies where.
static berth_status write_header(const module* m, const char* path, uint64_t* header_bytes) {
  size_t begin = 0;
  FILE* const file = fopen(path, "wb");
  if (file == NULL) return fail(path, "cannot be written", "");
  fwrite(header_bytes, sizeof *header_bytes, 1, file);
  for (size_t i = 0; i < m->count; ++i) {
    char* device = NULL;
    if (berth_device_format(m->tensors[i]->device, &device) != BERTH_OK) break;
    fprintf(file, "%s\"%s\":\"%s\"", i == 0 ? "{\"__metadata__\":{" : ",", m->names[i], device);
    berth_string_free(device);
  }
  for (size_t i = 0; i < m->count; ++i) {
    const tensor* const t = m->tensors[i];
    const size_t end = begin + tensor_bytes(t);
    fprintf(file, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%ld,%ld],\"data_offsets\":[%zu,%zu]}",
            i == 0 ? "}," : ",", m->names[i], t->rows, t->columns, begin, end);
    begin = end;
  }
  *header_bytes = (uint64_t)ftell(file) / 8 * 8;  // with "}" and spaces, up to a multiple of 8
  fprintf(file, "}%*s", (int)(*header_bytes + 7 - (uint64_t)ftell(file)), "");
  rewind(file);
  fwrite(header_bytes, sizeof *header_bytes, 1, file);
  return fclose(file) == 0 ? BERTH_OK : fail(path, "cannot be written", "");
}

berth_status module_save(library* lib, const module* m, const char* path) {
  uint64_t header_bytes = 0;
  berth_file* file = NULL;
  BERTH_TRY(write_header(m, path, &header_bytes));
  BERTH_TRY(berth_file_open_to_write(path, BERTH_FILE_AUTOMATIC, &file));
  berth_status status = BERTH_OK;
  uint64_t offset = 8 + header_bytes;
  for (size_t i = 0; i < m->count && status == BERTH_OK; offset += tensor_bytes(m->tensors[i++]))
    status = transfer(lib, m->tensors[i], file, offset, 1);
  if (status == BERTH_OK) status = berth_file_sync(file);
  berth_file_close(file);
  return status;
}

// What is behind "name": and `opening` in the header; null if that is not there.
static const char* find(const char* header, const char* name, const char* opening) {
  char key[256];
  snprintf(key, sizeof key, "\"%s\":%s", name, opening);
  const char* const found = strstr(header, key);
  return found != NULL ? found + strlen(key) : NULL;
}

// Reads `header` and the tensors, which have the shapes of those of the module.
static berth_status load_all(library* lib, const module* m, const char* path, berth_file* file,
                             char* header, uint64_t file_bytes, uint64_t data,
                             berth_device_map* map, tensor* loaded) {
  BERTH_TRY(berth_file_read(file, header, data - 8, 8));
  for (size_t i = 0; i < m->count; ++i) {
    const tensor* const like = m->tensors[i];
    const char* const entry = find(header, m->names[i], "{\"dtype\":\"F32\",\"shape\":[");
    const char* const saved_on = find(header, m->names[i], "\"");
    char device[32] = "cpu";
    berth_device saved, to;
    long rows, columns;
    uint64_t begin, end;
    if (saved_on != NULL) sscanf(saved_on, "%31[^\"]", device);
    if (entry == NULL || sscanf(entry, "%ld,%ld],\"data_offsets\":[%" SCNu64 ",%" SCNu64 "]", &rows,
                                &columns, &begin, &end) != 4)
      return fail(path, "it has no matrix ", m->names[i]);
    if (rows != like->rows || columns != like->columns || end < begin ||
        end - begin != tensor_bytes(like))
      return fail(path, "it has another shape for ", m->names[i]);
    if (end > file_bytes - data) return fail(path, "it ends in the data of ", m->names[i]);
    BERTH_TRY(berth_device_parse(device, &saved));
    BERTH_TRY(berth_device_map_check(map, lib->runtime, &saved, 1));
    BERTH_TRY(berth_device_map_find(map, saved, &to));
    BERTH_TRY(tensor_new(lib, rows, columns, to, 0, &loaded[i]));
    BERTH_TRY(transfer(lib, &loaded[i], file, data + begin, 0));
  }
  return BERTH_OK;
}

berth_status module_load(library* lib, const module* m, const char* path, berth_device_map* map) {
  uint64_t bytes = 0, header_bytes = 0;
  berth_file* file = NULL;
  BERTH_TRY(berth_file_open_to_read(path, BERTH_FILE_AUTOMATIC, &file));
  berth_status status = berth_file_get_size(file, &bytes);
  if (status == BERTH_OK) status = berth_file_read(file, &header_bytes, 8, 0);
  if (status == BERTH_OK && header_bytes > bytes - 8)
    status = fail(path, "it ends in the header", "");
  char* const header = status == BERTH_OK ? calloc(header_bytes + 1, 1) : NULL;
  tensor* const loaded = calloc(m->count, sizeof *loaded);
  if (status == BERTH_OK && (header == NULL || loaded == NULL))
    status = berth_last_error_set(BERTH_OUT_OF_MEMORY, "module_load: the host has no memory");
  if (status == BERTH_OK)
    status = load_all(lib, m, path, file, header, bytes, 8 + header_bytes, map, loaded);
  for (size_t i = 0; loaded != NULL && i < m->count; ++i) {
    tensor_free(status == BERTH_OK ? m->tensors[i] : &loaded[i]);
    if (status == BERTH_OK) *m->tensors[i] = loaded[i];
  }
  free(loaded);
  free(header);
  berth_file_close(file);
  return status;
}
