// Rows that a folder of caches holds, for those who look after it: packed rows (packed_store.h) and
// rows of matrices that are stored otherwise (row_cache.h). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cellfeed::convert {

struct KeptRows {
  enum class Kind { kPacked, kRows };
  Kind kind = Kind::kPacked;
  std::string folder;   // of this matrix
  std::string of_file;  // the name of the file, without its folder
  std::string matrix;   // as the folder names it: "X", "layers.counts"
  std::int64_t bytes = 0;
  std::int64_t written_ns = 0;  // the last of it, since 1970
};

// dir: cache_dir, or the ".cellfeed" folder beside a file. Those written longest ago first.
std::vector<KeptRows> kept_rows(const std::string& dir);
// What is wrong with them: each byte is read. Empty: nothing. progress gets bytes done and bytes.
std::vector<std::string> damages_of(
    const KeptRows& rows, const std::function<void(std::int64_t, std::int64_t)>& progress = {});
// False where some process writes them just now: they stay. Who reads them reads on.
bool remove_kept(const KeptRows& rows);

}  // namespace cellfeed::convert
