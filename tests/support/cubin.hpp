// SPDX-License-Identifier: Apache-2.0
// A cubin and a fat binary as nvcc makes them, for readers of these.
#pragma once

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <vector>

namespace berth::test {

/// Of `counter` (7), `table` (1.5, 2.5), `pointer` (the address of `counter`), `zeros` (100 bytes),
/// `scale` (2, constant), `flag` (managed), and the kernel `bump`.
class CubinImage {
 public:
  CubinImage() {
    const std::uint32_t counter = 7;
    const double table[2] = {1.5, 2.5};
    const std::uint64_t pointer = 0x1234;  // not yet the address
    const float scale = 2;
    const std::size_t names_at = append(names_);
    const std::size_t init_at = append(bytes_of(table) + bytes_of(pointer) + bytes_of(counter));
    const std::size_t constants_at = append(bytes_of(scale));
    const Elf64_Rela address{.r_offset = 16, .r_info = 0, .r_addend = 0};
    const std::size_t relocations_at = append(bytes_of(address));
    std::string symbols = bytes_of(Elf64_Sym{});
    const auto add = [&](const char* name, int type, unsigned char other, unsigned section,
                         std::uint64_t value, std::uint64_t length) {
      symbols += bytes_of(Elf64_Sym{.st_name = name_at(name),
                                    .st_info = static_cast<unsigned char>(ELF64_ST_INFO(0, type)),
                                    .st_other = other,
                                    .st_shndx = static_cast<Elf64_Section>(section),
                                    .st_value = value,
                                    .st_size = length});
    };
    add("counter", STT_OBJECT, 0, 3, 24, 4);
    add("table", STT_OBJECT, 0, 3, 0, 16);
    add("pointer", STT_OBJECT, 0, 3, 16, 8);
    add("zeros", STT_OBJECT, 0, 4, 0, 100);
    add("flag", STT_OBJECT, 4, 4, 100, 4);
    add("scale", STT_OBJECT, 0, 5, 0, 4);
    add("parameters", STT_OBJECT, 0, 7, 0, 4);
    add("bump", STT_FUNC, 0x10, 6, 0, 4);
    symbols_at = append(symbols);
    sections_at = bytes.size();
    append(bytes_of(Elf64_Shdr{}));
    add_section(".strtab", SHT_STRTAB, names_at, names_.size(), 0, 0);
    add_section(".symtab", SHT_SYMTAB, symbols_at, symbols.size(), 1, 0);
    add_section(".nv.global.init", SHT_PROGBITS, init_at, 28, 0, 0);
    add_section(".nv.global", SHT_NOBITS, 0, 104, 0, 0);
    add_section(".nv.constant3", SHT_PROGBITS, constants_at, 4, 0, 0);
    add_section(".text.bump", SHT_PROGBITS, constants_at, 4, 0, 0);
    add_section(".nv.constant0.bump", SHT_PROGBITS, constants_at, 4, 0, 0);
    add_section(".rela.nv.global.init", SHT_RELA, relocations_at, sizeof address, 2, 3);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_EXEC;
    header.e_machine = EM_CUDA;
    header.e_shoff = sections_at;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 9;
    header.e_shstrndx = 1;
    bytes.replace(0, sizeof header, bytes_of(header));
  }

  std::string bytes = std::string(sizeof(Elf64_Ehdr), '\0');
  std::size_t symbols_at = 0;
  std::size_t sections_at = 0;

 private:
  template <class T>
  static std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  std::size_t append(const std::string& part) {
    const std::size_t at = bytes.size();
    bytes += part;
    return at;
  }
  [[nodiscard]] std::uint32_t name_at(const std::string& name) const {
    return static_cast<std::uint32_t>(names_.find('\0' + name + '\0') + 1);
  }
  void add_section(const char* name, unsigned type, std::size_t at, std::size_t size, unsigned link,
                   unsigned info) {
    append(bytes_of(Elf64_Shdr{.sh_name = name_at(name),
                               .sh_type = type,
                               .sh_flags = 0,
                               .sh_addr = 0,
                               .sh_offset = at,
                               .sh_size = size,
                               .sh_link = link,
                               .sh_info = info,
                               .sh_addralign = 1,
                               .sh_entsize = 0}));
  }

  const std::string names_ = [] {
    std::string names(1, '\0');
    for (const char* name :
         {"counter", "table", "pointer", "zeros", "flag", "scale", "parameters", "bump", ".strtab",
          ".symtab", ".nv.global.init", ".nv.global", ".nv.constant3", ".text.bump",
          ".nv.constant0.bump", ".rela.nv.global.init"})
      names += std::string(name) + '\0';
    return names;
  }();
};

/// Holds PTX, which is not read, and `cubin`, whose compressed size is claimed to be `compressed`.
inline std::string fat_binary_of(const std::string& cubin, std::uint32_t compressed = 0) {
  const auto number = [](std::uint64_t value, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  const auto entry = [&](std::uint64_t kind, const std::string& code, std::uint32_t smaller) {
    return number(kind, 2) + number(0x101, 2) + number(64, 4) + number(code.size(), 8) +
           number(smaller, 4) + std::string(44, '\0') + code;
  };
  const std::string entries = entry(1, "ptx.....", 0) + entry(2, cubin, compressed);
  return number(0xBA55ED50, 4) + number(1, 2) + number(16, 2) + number(entries.size(), 8) + entries;
}

}  // namespace berth::test
