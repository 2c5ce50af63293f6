#include "cellfeed/collection/gene_keys.h"

#include <arrow/api.h>

#include <algorithm>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::collection {
namespace {

[[noreturn]] void throw_no_column(const std::string& path, const arrow::Schema& var,
                                  std::span<const std::string> columns) {
  std::vector<std::string> known;
  for (const std::string& name : var.field_names())
    if (name != "_index") known.push_back(name);
  throw_error(ErrorKind::kNoSuchKey, path, "var has no column {}; {}", matrix::some_names(columns),
              known.empty() ? "it has none" : "there are: " + matrix::some_names(known));
}

bool is_text(const matrix::FixedColumn& column) {
  if (!column.is_categorical || !column.categories) return false;
  const auto type = column.categories->type_id();
  return type == arrow::Type::STRING || type == arrow::Type::LARGE_STRING ||
         column.categories->length() == 0;
}

std::vector<std::string> texts_of(const format::RowStore& store, const std::string& name,
                                  const arrow::ChunkedArray& values) {
  const std::string& path = store.info().path;
  const matrix::FixedColumn column = matrix::make_fixed_column(name, values);
  if (!is_text(column))
    throw_error(ErrorKind::kInvalidArgument, path,
                "var column '{}' holds {}, not text, so it cannot name genes", name,
                values.type()->ToString());
  const std::vector<std::string> texts = matrix::category_texts(column);
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(column.length));
  dispatch_dtype(column.dtype, [&](auto zero) {
    const auto* codes = static_cast<const decltype(zero)*>(column.values);
    for (std::int64_t gene = 0; gene < column.length; ++gene) {
      const auto code = static_cast<std::int64_t>(codes[gene]);
      if (code < 0 || texts[static_cast<std::size_t>(code)].empty())
        throw_error(ErrorKind::kInvalidArgument, path,
                    "gene {} ('{}') has no value in var column '{}', so it cannot name the genes; "
                    "fill it in the file, such as with var_names",
                    gene, store.genes().names[static_cast<std::size_t>(gene)], name);
      keys.push_back(texts[static_cast<std::size_t>(code)]);
    }
  });
  return keys;
}

}  // namespace

std::vector<std::string> keys_of_genes(const format::RowStore& store,
                                       std::span<const std::string> columns) {
  if (columns.empty()) return store.genes().names;
  const std::shared_ptr<arrow::Table> var = store.read_var();
  for (const std::string& name : columns) {
    if (name == "_index") return store.genes().names;
    if (const auto values = var->GetColumnByName(name)) return texts_of(store, name, *values);
  }
  throw_no_column(store.info().path, *var->schema(), columns);
}

}  // namespace cellfeed::collection
