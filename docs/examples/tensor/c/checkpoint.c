/* SPDX-License-Identifier: Apache-2.0 */
// Modules in safetensors files: 8 bytes with the length of the header, the header, and the data.
// The header is JSON that says what lies where. No name has quotation marks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

static berth_status fail(const char* path, const char* what, const char* name) {
  char text[512];
  snprintf(text, sizeof text, "%s: %s%s", path, what, name);
  return berth_last_error_set(BERTH_FILE, text);
}

berth_status module_save(library* lib, const tensor* module, size_t count, const char* path) {
  char* device = NULL;
  size_t begin = 0;
  BERTH_TRY(berth_device_format(module->device, &device));
  FILE* const file = fopen(path, "wb");
  if (file == NULL) return berth_string_free(device), fail(path, "it cannot be written", "");
  fprintf(file, "%8s{\"__metadata__\":{\"device\":\"%s\"}", "", device);
  berth_string_free(device);
  for (const tensor* t = module; t < module + count; begin += tensor_bytes(t++))
    fprintf(file, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%ld,%ld],\"data_offsets\":[%zu,%zu]}",
            t->name, t->rows, t->columns, begin, begin + tensor_bytes(t));
  const uint64_t header_bytes = (uint64_t)ftell(file) / 8 * 8;  // with "}" and spaces
  fprintf(file, "}%*s", (int)(header_bytes + 7 - (uint64_t)ftell(file)), "");
  berth_status status = BERTH_OK;
  for (size_t i = 0; i < count && status == BERTH_OK; ++i) {
    tensor host;
    status = module_copy(lib, &module[i], 1, berth_device_cpu(), false, &host);
    const tensor* const t = host.allocator != NULL ? &host : &module[i];
    if (status == BERTH_OK) fwrite(tensor_numbers(lib, t, false), tensor_bytes(t), 1, file);
    tensor_free(&host);
  }
  rewind(file);
  fwrite(&header_bytes, sizeof header_bytes, 1, file);
  const bool is_written = !ferror(file);
  if (fclose(file) != 0 || !is_written) return fail(path, "it cannot be written", "");
  return status;
}

// Reads what a tensor has, from the file to its device.
static berth_status read(library* lib, const tensor* t, berth_file* file, uint64_t offset) {
  berth_stream stream;
  berth_transfer* transfer = NULL;
  float* const numbers = tensor_numbers(lib, t, true);
  if (numbers != NULL) return berth_file_read(file, numbers, tensor_bytes(t), offset);
  BERTH_TRY(library_stream(lib, t->device, &stream));
  BERTH_TRY(berth_transfer_start_from_file(lib->runtime, t->data, file, offset, tensor_bytes(t),
                                           stream, NULL, &transfer));
  return berth_transfer_finish(transfer);
}

typedef struct checkpoint {
  const char* path;
  berth_file* file;
  char* header;
  uint64_t bytes, header_bytes;
} checkpoint;

static berth_status open_checkpoint(checkpoint* from) {
  BERTH_TRY(berth_file_open_to_read(from->path, BERTH_FILE_AUTOMATIC, &from->file));
  BERTH_TRY(berth_file_get_size(from->file, &from->bytes));
  BERTH_TRY(berth_file_read(from->file, &from->header_bytes, 8, 0));
  if (from->header_bytes > from->bytes - 8) return fail(from->path, "it ends in the header", "");
  from->header = calloc(from->header_bytes + 1, 1);
  if (from->header == NULL) return berth_last_error_set(BERTH_OUT_OF_MEMORY, "no memory to read");
  return berth_file_read(from->file, from->header, from->header_bytes, 8);
}

static berth_status load_all(library* lib, const tensor* module, size_t count,
                             const checkpoint* from, berth_device_map* map, tensor* made) {
  char device[32] = "cpu", key[256];
  berth_device saved, to;
  const char* const saved_on = strstr(from->header, "\"device\":\"");
  if (saved_on != NULL) sscanf(saved_on, "\"device\":\"%31[^\"]", device);
  BERTH_TRY(berth_device_parse(device, &saved));
  BERTH_TRY(berth_device_map_check(map, lib->runtime, &saved, 1));
  BERTH_TRY(berth_device_map_find(map, saved, &to));
  for (size_t i = 0; i < count; ++i) {
    const tensor* const like = &module[i];
    long rows, columns;
    size_t begin, end;
    snprintf(key, sizeof key, "\"%s\":{\"dtype\":\"F32\",\"shape\":[", like->name);
    const char* const entry = strstr(from->header, key);
    if (entry == NULL ||
        sscanf(entry + strlen(key), "%ld,%ld],\"data_offsets\":[%zu,%zu", &rows, &columns, &begin,
               &end) != 4 ||
        rows != like->rows || columns != like->columns || end - begin != tensor_bytes(like))
      return fail(from->path, "it has no matrix of this shape: ", like->name);
    if (begin > end || end > from->bytes - 8 - from->header_bytes)
      return fail(from->path, "it ends in the data of ", like->name);
    BERTH_TRY(tensor_new(lib, rows, columns, to, false, &made[i]));
    made[i].name = like->name;
    BERTH_TRY(read(lib, &made[i], from->file, 8 + from->header_bytes + begin));
  }
  return BERTH_OK;
}

berth_status module_load(library* lib, tensor* module, size_t count, const char* path,
                         berth_device_map* map) {
  checkpoint from = {.path = path};
  tensor* const made = calloc(count + 1, sizeof *made);
  if (made == NULL) return berth_last_error_set(BERTH_OUT_OF_MEMORY, "no memory for a module");
  berth_status status = open_checkpoint(&from);
  if (status == BERTH_OK) status = load_all(lib, module, count, &from, map, made);
  free(from.header);
  berth_file_close(from.file);
  return module_replace(module, count, made, status);
}
