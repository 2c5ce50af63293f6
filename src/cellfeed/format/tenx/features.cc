// Features of a 10x file.
#include "cellfeed/format/tenx/features.h"

#include <arrow/api.h>

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// Whole numbers as text, as scanpy has them.
std::shared_ptr<arrow::Array> as_texts(const std::shared_ptr<arrow::Array>& array) {
  if (!arrow::is_integer(array->type_id())) return array;
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < array->length(); ++i) {
    const auto scalar = array->GetScalar(i);
    check_arrow(scalar.status());
    check_arrow(builder.Append((*scalar)->ToString()));
  }
  std::shared_ptr<arrow::Array> texts;
  check_arrow(builder.Finish(&texts));
  return texts;
}

}  // namespace

Features::Features(hdf5::File file, TenxMatrix matrix, const FeatureChoice& choice)
    : file_(std::move(file)),
      matrix_(std::move(matrix)),
      chosen_(file_.path(), matrix_.n_features) {
  if (!matrix_.has_features) {
    chosen_.require_gene_expression(choice.feature_type, "files of Cell Ranger 2");
    return;
  }
  if (!choice.genome.empty()) chosen_.keep_genome(read_texts("genome"), choice.genome);
  if (choice.feature_type != kAllTypes && matrix_.n_features > 0)
    chosen_.keep_type(read_texts("feature_type"), choice.feature_type);
}

std::string Features::path_of(const std::string& name) const {
  return matrix_.group + (matrix_.has_features ? "/features/" : "/") + name;
}

std::vector<std::string> Features::read_texts(const std::string& name) const {
  const auto array =
      as_texts(read_all_values(column_of(find_list(file_, path_of(name), matrix_.n_features))));
  if (array->type_id() != arrow::Type::STRING)
    throw_error(ErrorKind::kCorruptData, file_.path(), "must hold texts: '{}' holds {}",
                path_of(name), array->type()->ToString());
  const auto& strings = static_cast<const arrow::StringArray&>(*array);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < strings.length(); ++i) texts.emplace_back(strings.GetView(i));
  return texts;
}

std::vector<std::string> Features::names() const {
  return chosen_.kept(read_texts(matrix_.has_features ? "name" : "gene_names"));
}

std::shared_ptr<arrow::Array> Features::read_column(const std::string& name) const {
  return chosen_.kept(
      as_texts(read_all_values(column_of(find_list(file_, path_of(name), matrix_.n_features)))));
}

std::shared_ptr<arrow::Table> Features::table() const {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  const auto add = [&](const char* column, const std::string& stored) {
    arrays.push_back(read_column(stored));
    fields.push_back(arrow::field(column, arrays.back()->type()));
  };
  add("_index", matrix_.has_features ? "name" : "gene_names");
  if (!matrix_.has_features) {
    add("gene_ids", "genes");
  } else {
    const hdf5::Group group = file_.find(matrix_.group + "/features")->group();
    // Of a matrix of probes, "id" is the probe's.
    const bool has_probes = group.find("gene_id").has_value();
    add("gene_ids", has_probes ? "gene_id" : "id");
    if (has_probes) add("probe_ids", "id");
    add("feature_types", "feature_type");
    for (const std::string& name : group.member_names()) {
      constexpr const char* kNamed[] = {"name", "feature_type", "id", "gene_id", "_all_tag_keys"};
      const auto member = group.find(name);
      if (std::find(std::begin(kNamed), std::end(kNamed), name) == std::end(kNamed) && member &&
          member->kind() == hdf5::ObjectKind::kDataset)
        add(name.c_str(), name);
    }
  }
  return arrow::Table::Make(arrow::schema(std::move(fields)), arrays, chosen_.n_kept());
}

}  // namespace cellfeed::format::tenx
