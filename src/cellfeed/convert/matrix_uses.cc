#include "cellfeed/convert/matrix_uses.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/row_cache.h"

namespace cellfeed::convert {
namespace {

void decide_use(const std::string& path, const format::OpenOptions& options, MatrixInFile& matrix) {
  format::OpenOptions open = options;
  open.layer = matrix.stored.name;
  open.row_maker = [&](std::unique_ptr<format::EntryStore> entries, const format::OpenOptions&) {
    const RowCache cache({});
    matrix.use = MatrixUse::kCache;
    matrix.row_cache = cache.directory_of(*entries);
    matrix.has_cached_rows = cache.has_rows(*entries);
    return std::vector<std::unique_ptr<format::RowStore>>();
  };
  try {
    format::open_stores(path, open);
  } catch (const Error& error) {
    if (error.was_not_read()) throw;
    matrix.use = MatrixUse::kRefused;
    // Where it is has been said.
    const std::string message = error.what();
    matrix.reason = message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
  }
}

std::string stored_text(const format::MatrixDescription& stored) {
  std::string text = stored.encoding.empty() ? std::string("unknown") : stored.encoding;
  if (!stored.value_dtype.empty()) text += " " + stored.value_dtype;
  if (!stored.shape.empty()) text += fmt::format(" {}", fmt::join(stored.shape, " x "));
  if (stored.nnz >= 0) text += fmt::format(", {} non-zeros", stored.nnz);
  if (!stored.chunk_shape.empty())
    text += fmt::format(", chunks of {}", fmt::join(stored.chunk_shape, " x "));
  if (!stored.filters.empty() && stored.filters != "none") text += ", " + stored.filters;
  return text;
}

std::string use_text(const MatrixInFile& matrix) {
  switch (matrix.use) {
    case MatrixUse::kRows:
      return "read by rows";
    case MatrixUse::kCache:
      return fmt::format("rows are written once to {} ({})", matrix.row_cache,
                         matrix.has_cached_rows ? "ready" : "not there yet");
    case MatrixUse::kRefused:
      break;
  }
  return "refused: " + matrix.reason;
}

const char* use_name(MatrixUse use) {
  switch (use) {
    case MatrixUse::kRows:
      return "rows";
    case MatrixUse::kCache:
      return "cache";
    case MatrixUse::kRefused:
      break;
  }
  return "refused";
}

}  // namespace

std::vector<MatrixInFile> describe_matrices(const std::string& path,
                                            const format::OpenOptions& options) {
  std::vector<MatrixInFile> matrices;
  for (auto& stored : format::list_matrices(path, options.choice.modality)) {
    MatrixInFile matrix;
    matrix.stored = std::move(stored);
    decide_use(path, options, matrix);
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

std::string matrices_text(const std::vector<MatrixInFile>& matrices) {
  std::string text = fmt::format("matrices      {}\n", matrices.size());
  for (const MatrixInFile& matrix : matrices)
    text += fmt::format("  {}: {}; {}\n", matrix.stored.name, stored_text(matrix.stored),
                        use_text(matrix));
  return text;
}

nlohmann::ordered_json matrices_json(const std::vector<MatrixInFile>& matrices) {
  auto list = nlohmann::ordered_json::array();
  for (const MatrixInFile& matrix : matrices) {
    const format::MatrixDescription& stored = matrix.stored;
    nlohmann::ordered_json json = {{"name", stored.name},
                                   {"encoding", stored.encoding},
                                   {"value_dtype", stored.value_dtype},
                                   {"shape", stored.shape},
                                   {"chunk_shape", stored.chunk_shape},
                                   {"filters", stored.filters},
                                   {"use", use_name(matrix.use)}};
    json["nnz"] = nullptr;
    if (stored.nnz >= 0) json["nnz"] = stored.nnz;
    if (matrix.use == MatrixUse::kRefused) json["reason"] = matrix.reason;
    if (matrix.use == MatrixUse::kCache) {
      json["row_cache"] = matrix.row_cache;
      json["has_cached_rows"] = matrix.has_cached_rows;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace cellfeed::convert
