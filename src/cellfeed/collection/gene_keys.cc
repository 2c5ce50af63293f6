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
  auto keys = text_column(name, values);
  if (!keys)
    throw_error(ErrorKind::kInvalidArgument, path,
                "var column '{}' holds {}, not text, so it cannot name genes", name,
                values.type()->ToString());
  const auto without = std::ranges::find(*keys, std::string());
  if (without != keys->end())
    throw_error(ErrorKind::kInvalidArgument, path,
                "gene {} ('{}') has no value in var column '{}', so it cannot name the genes; "
                "fill it in the file, such as with var_names",
                without - keys->begin(),
                store.genes().names[static_cast<std::size_t>(without - keys->begin())], name);
  return std::move(*keys);
}

}  // namespace

std::optional<std::vector<std::string>> text_column(const std::string& name,
                                                    const arrow::ChunkedArray& values) {
  const matrix::FixedColumn column = matrix::make_fixed_column(name, values);
  if (!is_text(column)) return std::nullopt;
  const std::vector<std::string> categories = matrix::category_texts(column);
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(column.length));
  dispatch_dtype(column.dtype, [&](auto zero) {
    const auto* codes = static_cast<const decltype(zero)*>(column.values);
    for (std::int64_t i = 0; i < column.length; ++i) {
      const auto code = static_cast<std::int64_t>(codes[i]);
      texts.push_back(code < 0 ? std::string() : categories[static_cast<std::size_t>(code)]);
    }
  });
  return texts;
}

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

bool have_one_gene_table(const format::RowStore& a, const format::RowStore& b) {
  return &a.genes() == &b.genes() && a.info().format == "shard" && b.info().format == "shard";
}

}  // namespace cellfeed::collection
