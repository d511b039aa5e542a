// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_file.hpp"

#include <string>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

static_assert(int(FileCaching::automatic) == BERTH_FILE_AUTOMATIC);
static_assert(int(FileCaching::cached) == BERTH_FILE_CACHED);
static_assert(int(FileCaching::direct) == BERTH_FILE_DIRECT);

namespace {

FileCaching to_caching(int number) {
  if (number >= BERTH_FILE_AUTOMATIC && number <= BERTH_FILE_DIRECT)
    return static_cast<FileCaching>(number);
  throw InvalidArgument("\"caching\" is " + std::to_string(number) +
                        "; accepted: BERTH_FILE_AUTOMATIC, BERTH_FILE_CACHED, BERTH_FILE_DIRECT");
}

}  // namespace

berth_status berth_file_open_to_read(const char* path, int caching, berth_file** file) {
  return guarded([&] {
    const char* const name = &require(path, "path");
    auto& out = require(file, "file");
    out = new berth_file{File::open_to_read(name, to_caching(caching))};
  });
}

berth_status berth_file_open_to_write(const char* path, int caching, berth_file** file) {
  return guarded([&] {
    const char* const name = &require(path, "path");
    auto& out = require(file, "file");
    out = new berth_file{File::open_to_write(name, to_caching(caching))};
  });
}

void berth_file_close(berth_file* file) {
  delete file;
}

berth_status berth_file_get_size(berth_file* file, std::uint64_t* bytes) {
  return guarded([&] {
    const File& asked = require(file, "file").file;
    require(bytes, "bytes") = asked.size();
  });
}

berth_status berth_file_read(berth_file* file, void* target, std::size_t bytes,
                             std::uint64_t offset) {
  return guarded([&] {
    require(file, "file").file.read({static_cast<std::byte*>(target), bytes}, offset);
  });
}

berth_status berth_file_write(berth_file* file, const void* source, std::size_t bytes,
                              std::uint64_t offset) {
  return guarded([&] {
    require(file, "file").file.write({static_cast<const std::byte*>(source), bytes}, offset);
  });
}

berth_status berth_file_sync(berth_file* file) {
  return guarded([&] { require(file, "file").file.sync(); });
}
