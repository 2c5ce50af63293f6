// Features of a 10x file.
#include "cellfeed/format/tenx/features.h"

#include <arrow/api.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// "Antibody Capture (17), Gene Expression (33538)"
std::string tally(std::span<const std::string> texts) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) ++counts[text];
  std::string list;
  for (const auto& [text, n] : counts)
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", text.empty() ? "''" : text, n);
  return list;
}

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
      is_kept_(static_cast<std::size_t>(matrix_.n_features), true) {
  if (matrix_.has_features) {
    if (!choice.genome.empty()) keep_genome(choice.genome);
    if (choice.feature_type != kAllTypes) keep_type(choice.feature_type);
  } else if (!choice.feature_type.empty() && choice.feature_type != kAllTypes &&
             choice.feature_type != kGeneExpression) {
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "no feature type '{}': files of Cell Ranger 2 hold gene expression only",
                choice.feature_type);
  }
  n_kept_ = std::count(is_kept_.begin(), is_kept_.end(), true);
  if (n_kept_ == matrix_.n_features) return;
  columns_.assign(is_kept_.size(), -1);
  std::int32_t column = 0;
  for (std::size_t i = 0; i < is_kept_.size(); ++i)
    if (is_kept_[i]) columns_[i] = column++;
}

void Features::keep_genome(const std::string& genome) {
  const std::vector<std::string> genomes = read_texts("genome");
  if (std::find(genomes.begin(), genomes.end(), genome) == genomes.end())
    throw_error(ErrorKind::kInvalidArgument, file_.path(), "no genome '{}'; there are: {}", genome,
                tally(genomes));
  for (std::size_t i = 0; i < genomes.size(); ++i)
    if (genomes[i] != genome) is_kept_[i] = false;
}

void Features::keep_type(const std::string& wanted) {
  if (matrix_.n_features == 0) return;
  const std::vector<std::string> types = read_texts("feature_type");
  const std::string& type = wanted.empty() ? kGeneExpression : wanted;
  std::vector<std::string> candidates, others;
  for (std::size_t i = 0; i < types.size(); ++i)
    if (is_kept_[i]) (types[i] == type ? candidates : others).push_back(types[i]);
  if (candidates.empty())
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "no features of type '{}'; choose with feature_type, or \"{}\" for all: {}", type,
                kAllTypes, tally(others));
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i] != type) is_kept_[i] = false;
  if (wanted.empty() && !others.empty())
    left_out_ = fmt::format(
        "features that are not gene expression are left out: {}; feature_type "
        "\"{}\" keeps them",
        tally(others), kAllTypes);
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
  // They are shown and compared, as other texts are not.
  if (!array->ValidateFull().ok())
    throw_error(ErrorKind::kCorruptData, file_.path(), "damaged texts, which are not UTF-8: '{}'",
                path_of(name));
  const auto& strings = static_cast<const arrow::StringArray&>(*array);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < strings.length(); ++i) texts.emplace_back(strings.GetView(i));
  return texts;
}

std::vector<std::string> Features::names() const {
  const std::vector<std::string> all = read_texts(matrix_.has_features ? "name" : "gene_names");
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_kept_[i]) kept.push_back(all[i]);
  return kept;
}

std::shared_ptr<arrow::Array> Features::read_column(const std::string& name) const {
  const auto all =
      as_texts(read_all_values(column_of(find_list(file_, path_of(name), matrix_.n_features))));
  if (columns_.empty()) return all;
  arrow::ArrayVector runs{all->Slice(0, 0)};
  const auto n = static_cast<std::int64_t>(is_kept_.size());
  for (std::int64_t begin = 0; begin < n;) {
    std::int64_t end = begin + 1;
    while (end < n && is_kept_[end] == is_kept_[begin]) ++end;
    if (is_kept_[begin]) runs.push_back(all->Slice(begin, end - begin));
    begin = end;
  }
  const auto kept = arrow::Concatenate(runs);
  check_arrow(kept.status());
  return *kept;
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
  return arrow::Table::Make(arrow::schema(std::move(fields)), arrays, n_kept_);
}

}  // namespace cellfeed::format::tenx
