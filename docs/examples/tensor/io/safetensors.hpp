// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: 8 bytes with its length, and JSON that says what lies where.
// Only tensors of F32. The device that a tensor was on is in the metadata, under its name.
#pragma once

#include <berth/berth.hpp>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mini {

struct SavedTensor {
  std::vector<long> shape;
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t end = 0;
  berth::Device device;
};
using SavedTensors = std::map<std::string, SavedTensor>;

/// Reads the header, strictly: nothing is guessed.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const berth::File& file) : file_(file) {}

  SavedTensors read() {
    std::uint64_t header_bytes = 0;  // little-endian, as every host with a GPU is
    if (file_.size() < 8) fail("it ends in the length of the header");
    file_.read(std::as_writable_bytes(std::span(&header_bytes, 1)), 0);
    if (header_bytes > file_.size() - 8) fail("it ends in the header");
    text_.resize(header_bytes);
    file_.read(std::as_writable_bytes(std::span(text_)), 8);
    data_ = 8 + header_bytes;
    members([&](const std::string& name) { name == "__metadata__" ? metadata() : tensor(name); });
    if (peek() != '\0' || at_ < text_.size()) fail("something follows the header");
    for (const auto& [name, device] : devices_) {
      if (const auto found = tensors_.find(name); found != tensors_.end())
        found->second.device = berth::Device::parse(device);
    }
    return tensors_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw berth::InvalidArgument(file_.path() + " is not a safetensors file: " + what);
  }

  char peek() {
    while (at_ < text_.size() && std::strchr(" \n\r\t", text_[at_]) != nullptr) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted || wanted == '\0') return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted))
      fail(std::string("'") + wanted + "' is expected at byte " + std::to_string(at_) +
           " of the header");
  }

  std::string string() {
    expect('"');
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string::npos || text_[end] == '\\') fail("a name with a backslash, or no end");
    const std::string found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> found;
    expect('[');
    while (!accept(']')) {
      if (!found.empty()) expect(',');
      peek();
      const char* const end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, found.emplace_back());
      if (error != std::errc()) fail("a number is expected at byte " + std::to_string(at_));
      at_ = std::size_t(next - text_.data());
    }
    return found;
  }
  /// Calls `value` for each member of an object.
  template <class Value>
  void members(const Value& value) {
    expect('{');
    if (accept('}')) return;
    do {
      const std::string name = string();
      expect(':');
      value(name);
    } while (accept(','));
    expect('}');
  }

  void metadata() {
    members([&](const std::string& name) { devices_[name] = string(); });
  }
  void tensor(const std::string& name) {
    SavedTensor saved;
    std::uint64_t bytes = sizeof(float);
    std::set<std::string> keys;
    members([&](const std::string& key) {
      if (!keys.insert(key).second) fail(name + " has a key twice");
      if (key == "dtype") {
        if (string() != "F32") fail(name + " has another dtype than F32");
      } else if (key == "shape") {
        for (const std::uint64_t size : numbers()) {
          if (size != 0 && bytes > file_.size() / size) fail(name + " is larger than the file");
          saved.shape.push_back(long(size));
          bytes *= size;
        }
      } else if (const auto offsets = numbers(); key != "data_offsets" || offsets.size() != 2) {
        fail(name + " has an unknown key");
      } else {
        saved.begin = data_ + offsets[0];
        saved.end = data_ + offsets[1];
      }
    });
    if (keys.size() != 3) fail(name + " lacks a key");
    if (saved.end < saved.begin || saved.end > file_.size() || saved.begin < data_)
      fail("it ends in the data of " + name);
    if (saved.end - saved.begin != bytes) fail(name + " has another size than its shape");
    if (!tensors_.emplace(name, saved).second) fail(name + " is there twice");
  }

  const berth::File& file_;
  std::string text_;
  std::size_t at_ = 0;
  std::uint64_t data_ = 0;
  SavedTensors tensors_;
  std::map<std::string, std::string> devices_;
};

}  // namespace mini
