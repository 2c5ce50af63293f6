// RowStore: what is shared by every format.
#include "cellfeed/format/row_store.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"

namespace cellfeed::format {

std::vector<std::string> column_numbers(std::int64_t n_cols) {
  std::vector<std::string> numbers;
  for (std::int64_t i = 0; i < n_cols; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

std::string layer_path(const std::string& name) {
  if (name == "X" || name == "raw/X" || name.starts_with("layers/") || is_obsm(name)) return name;
  return "layers/" + name;
}

std::string layer_key(const std::string& path) {
  const std::string alone = path.substr(path.find('/') + 1);
  return layer_path(alone) == path ? alone : path;
}

std::string modality_at(const std::string& root) {
  return root.starts_with(kModalities) ? root.substr(kModalities.size()) : std::string();
}

void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

void FetchedRows::run(std::int64_t task) {
  throw Error(ErrorKind::kInternal, fmt::format("rows without tasks have no task {}", task));
}

void FetchedRows::decode_dense(std::int64_t, std::int64_t, const DenseTarget&) const {
  throw Error(ErrorKind::kInternal, "rows that are stored sparse are decoded as such");
}

std::unique_ptr<FetchedRows> fetch_rows(const RowStore& store, std::span<const std::int64_t> rows,
                                        const ParallelFor& parallel) {
  auto fetched = store.begin(rows);
  fetched->wait();
  if (const std::int64_t n = fetched->n_tasks(); n > 0)
    parallel(n, [&](std::int64_t task) { fetched->run(task); });
  return fetched;
}

void require_obs_columns(std::span<const std::unique_ptr<RowStore>> stores,
                         const FileChoice& choice) {
  const TableOptions& table = choice.table;
  std::vector<std::string> names;
  if (table.obs_columns.empty() || stores.empty()) return;
  for (const auto& store : stores)
    for (std::string& name : store->obs_names()) names.push_back(std::move(name));
  for (const std::string& wanted : table.obs_columns)
    if (std::ranges::find(names, wanted) == names.end())
      throw_error(ErrorKind::kNoSuchKey, stores.front()->info().path,
                  "no column '{}', which is named as one of obs{}", wanted,
                  suggestion(wanted, names));
}

std::optional<matrix::FixedColumn> RowStore::known_library_sizes() const {
  if (info().layer != "X") return std::nullopt;
  const auto names = obs_names();
  if (std::find(names.begin(), names.end(), kLibrarySizeColumn) == names.end()) return std::nullopt;
  auto column = obs_column(kLibrarySizeColumn);
  if (column.is_categorical || column.dtype != DType::kF64 || column.validity != nullptr)
    throw_error(ErrorKind::kInvalidArgument, info().path,
                "obs column '{}' is not one that an export wrote, which are float64 without "
                "missing values: rename it, or remove it",
                kLibrarySizeColumn);
  return column;
}

}  // namespace cellfeed::format
