// TempDir: an empty directory for one test, removed with all it holds.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::testing {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "cellfeed-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_error(ErrorKind::kIo, name, "cannot make it");
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file of these bytes and returns its path.
  std::string write(std::string_view name, std::span<const std::byte> bytes) const {
    const std::string target = file(name);
    std::ofstream out(target, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    if (!out.flush()) throw_error(ErrorKind::kIo, target, "cannot write it");
    return target;
  }
  std::string write(std::string_view name, std::string_view text) const {
    return write(name, std::as_bytes(std::span(text)));
  }

  static std::vector<std::byte> read_all(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw_error(ErrorKind::kNotFound, path, "cannot open it");
    const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(chars));
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::string path_;
};

}  // namespace cellfeed::testing
