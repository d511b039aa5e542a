// SPDX-License-Identifier: Apache-2.0
#include "sim/work/cubin.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string_view>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace berth::sim {
namespace {

using Bytes = std::span<const std::byte>;

/// Of `st_other`: the variable is in managed memory. As `cuobjdump -elf` prints it.
constexpr unsigned char kManagedSymbol = 4;
/// Larger than the memory of any device.
constexpr std::uint64_t kDeviceVariableMax = std::uint64_t{1} << 44;
constexpr std::uint64_t kImageMax = std::uint64_t{1} << 30;

struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  ///< behind the header
};

/// The beginning of the header of a code in a fat binary.
struct FatEntry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;             ///< behind the header
  std::uint32_t bytes_compressed;  ///< 0: it is not compressed
};
constexpr std::uint16_t kCubinEntry = 2;

struct FatWrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const void* fat_binary;
};

std::optional<Bytes> part(Bytes image, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > image.size() || bytes > image.size() - offset) return std::nullopt;
  return image.subspan(offset, bytes);
}

/// `count` structures; null if they are not all in `image`.
template <class T>
std::optional<std::vector<T>> read_array(Bytes image, std::uint64_t offset, std::uint64_t count) {
  if (count > image.size() / sizeof(T)) return std::nullopt;
  const auto found = part(image, offset, count * sizeof(T));
  if (!found) return std::nullopt;
  std::vector<T> values(count);
  if (count != 0) std::memcpy(values.data(), found->data(), count * sizeof(T));
  return values;
}

template <class T>
std::optional<T> read_one(Bytes image, std::uint64_t offset = 0) {
  const auto found = part(image, offset, sizeof(T));
  if (!found) return std::nullopt;
  T value;
  std::memcpy(&value, found->data(), sizeof value);
  return value;
}

/// The string at `offset` of a table; empty if it does not end there.
std::string_view string_at(Bytes table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest(reinterpret_cast<const char*>(table.data()) + offset,
                              table.size() - offset);
  const std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

/// Whether a section of that name holds variables of the program. Those behind .nv.constant0 and a
/// kernel's name are the kernel's parameters.
bool holds_variables(std::string_view section) {
  constexpr std::string_view constants = ".nv.constant";
  if (section == ".nv.global" || section == ".nv.global.init") return true;
  return section.starts_with(constants) && section.size() > constants.size() &&
         section.find_first_not_of("0123456789", constants.size()) == section.npos;
}

bool is_cubin_header(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_machine == EM_CUDA && header.e_shentsize == sizeof(Elf64_Shdr);
}

class CubinReader {
 public:
  explicit CubinReader(Bytes image) : image_(image) {}

  /// False if the image is malformed.
  bool read();
  std::vector<ImageVariable> variables() { return std::move(variables_); }

 private:
  struct Section {
    Elf64_Shdr header;
    bool has_variables = false;
    std::vector<std::uint64_t> relocated = {};  ///< offsets, in order
  };

  bool read_sections();
  bool read_relocations(const Elf64_Shdr& relocations);
  bool read_symbols(const Elf64_Shdr& symbols);
  bool read_variable(const Elf64_Sym& symbol, const Section& section, std::string_view name);
  /// Counts bytes that are read. False if they are more than an image has whose parts do not
  /// overlap: a small image must not ask for much memory.
  bool take(std::uint64_t bytes) {
    const bool is_there = bytes <= image_.size() - taken_;
    if (is_there) taken_ += bytes;
    return is_there;
  }
  /// The bytes of a section in the image.
  [[nodiscard]] std::optional<Bytes> content(const Elf64_Shdr& header) const {
    return part(image_, header.sh_offset, header.sh_size);
  }

  Bytes image_;
  std::vector<Section> sections_;
  std::uint64_t taken_ = 0;
  std::vector<ImageVariable> variables_;
};

bool CubinReader::read() {
  if (!read_sections()) return false;
  for (const Section& section : sections_)
    if ((section.header.sh_type == SHT_RELA || section.header.sh_type == SHT_REL) &&
        !read_relocations(section.header))
      return false;
  for (Section& section : sections_) std::ranges::sort(section.relocated);
  return std::ranges::all_of(sections_, [&](const Section& section) {
    return section.header.sh_type != SHT_SYMTAB || read_symbols(section.header);
  });
}

bool CubinReader::read_sections() {
  const auto header = read_one<Elf64_Ehdr>(image_);
  if (!header || !is_cubin_header(*header)) return false;
  const auto headers = read_array<Elf64_Shdr>(image_, header->e_shoff, header->e_shnum);
  if (!headers || header->e_shstrndx >= headers->size()) return false;
  const auto names = content((*headers)[header->e_shstrndx]);
  if (!names) return false;
  for (const Elf64_Shdr& section : *headers)
    sections_.push_back({section, holds_variables(string_at(*names, section.sh_name))});
  return true;
}

/// Notes which values hold addresses, if `relocations` are of a section of variables.
bool CubinReader::read_relocations(const Elf64_Shdr& relocations) {
  if (relocations.sh_info >= sections_.size()) return false;
  Section& changed = sections_[relocations.sh_info];
  if (!changed.has_variables) return true;
  const std::uint64_t entry =
      relocations.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
  const auto found = content(relocations);
  if (!found || !take(relocations.sh_size)) return false;
  for (std::uint64_t at = 0; at + entry <= found->size(); at += entry)
    changed.relocated.push_back(*read_one<Elf64_Addr>(*found, at));
  return true;
}

bool CubinReader::read_symbols(const Elf64_Shdr& symbols) {
  if (symbols.sh_link >= sections_.size() || !take(symbols.sh_size)) return false;
  const auto names = content(sections_[symbols.sh_link].header);
  const auto found =
      read_array<Elf64_Sym>(image_, symbols.sh_offset, symbols.sh_size / sizeof(Elf64_Sym));
  if (!names || !found) return false;
  for (const Elf64_Sym& symbol : *found) {
    const bool is_object =
        ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx < sections_.size();
    if (!is_object || symbol.st_size == 0) continue;
    const Section& section = sections_[symbol.st_shndx];
    if (section.has_variables && !read_variable(symbol, section, string_at(*names, symbol.st_name)))
      return false;
  }
  return true;
}

bool CubinReader::read_variable(const Elf64_Sym& symbol, const Section& section,
                                std::string_view name) {
  const std::uint64_t bytes = section.header.sh_size;
  const bool fits = bytes <= kDeviceVariableMax && symbol.st_value <= bytes &&
                    symbol.st_size <= bytes - symbol.st_value;
  if (!fits || name.empty() || !take(name.size())) return false;
  ImageVariable variable{
      std::string(name), symbol.st_size, (symbol.st_other & kManagedSymbol) != 0, {}, true};
  if (section.header.sh_type != SHT_NOBITS) {
    const auto values = content(section.header);
    if (!values || !take(symbol.st_size)) return false;
    const Bytes value = values->subspan(symbol.st_value, symbol.st_size);
    const auto relocated = std::ranges::lower_bound(section.relocated, symbol.st_value);
    variable.is_value_known =
        relocated == section.relocated.end() || *relocated - symbol.st_value >= symbol.st_size;
    if (variable.is_value_known) variable.value.assign(value.begin(), value.end());
  }
  variables_.push_back(std::move(variable));
  return true;
}

/// Memory of this process that need not be there; empty if it is not.
std::vector<std::byte> copy_of_memory(const void* start, std::uint64_t bytes) {
  if (bytes > kImageMax) return {};
  std::vector<std::byte> copy(bytes);
  const iovec to{copy.data(), copy.size()};
  const iovec from{const_cast<void*>(start), copy.size()};
  const ssize_t read = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
  if (read != static_cast<ssize_t>(bytes)) return {};
  return copy;
}

}  // namespace

std::optional<std::vector<ImageVariable>> read_cubin(std::span<const std::byte> image) {
  CubinReader reader(image);
  if (!reader.read()) return std::nullopt;
  return reader.variables();
}

std::optional<std::vector<ImageVariable>> read_fat_binary(std::span<const std::byte> image) {
  const auto header = read_one<FatHeader>(image);
  if (!header) return std::nullopt;
  std::uint64_t at = header->header_bytes;
  while (const auto entry = read_one<FatEntry>(image, at)) {
    const auto code = at <= image.size() && entry->header_bytes <= image.size() - at
                          ? part(image, at + entry->header_bytes, entry->bytes)
                          : std::nullopt;
    if (!code) return std::nullopt;
    if (entry->kind == kCubinEntry)
      return entry->bytes_compressed == 0 ? read_cubin(*code) : std::nullopt;
    if (entry->header_bytes < sizeof(FatEntry)) return std::nullopt;
    at += entry->header_bytes + entry->bytes;
  }
  return std::nullopt;
}

std::vector<std::byte> copy_cubin(const void* start) {
  const auto header = read_one<Elf64_Ehdr>(copy_of_memory(start, sizeof(Elf64_Ehdr)));
  if (!header || !is_cubin_header(*header) || header->e_shoff > kImageMax) return {};
  std::uint64_t bytes = header->e_shoff + std::uint64_t{header->e_shnum} * sizeof(Elf64_Shdr);
  const std::vector<std::byte> beginning = copy_of_memory(start, bytes);
  const auto sections = read_array<Elf64_Shdr>(beginning, header->e_shoff, header->e_shnum);
  if (!sections) return {};
  for (const Elf64_Shdr& section : *sections) {
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > kImageMax || section.sh_size > kImageMax) return {};
    bytes = std::max<std::uint64_t>(bytes, section.sh_offset + section.sh_size);
  }
  return copy_of_memory(start, bytes);
}

std::vector<std::byte> copy_fat_binary(const void* start) {
  const auto header = read_one<FatHeader>(copy_of_memory(start, sizeof(FatHeader)));
  if (!header || header->bytes > kImageMax) return {};
  return copy_of_memory(start, header->header_bytes + header->bytes);
}

std::vector<std::byte> copy_wrapped_fat_binary(const void* start) {
  const auto wrapper = read_one<FatWrapper>(copy_of_memory(start, sizeof(FatWrapper)));
  return wrapper ? copy_fat_binary(wrapper->fat_binary) : std::vector<std::byte>();
}

}  // namespace berth::sim
