#include "cellfeed/format/anndata/sub_tree.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::anndata {
namespace {

constexpr std::string_view kTables = "tables";

// Names of the groups in one of the root.
std::vector<std::string> groups_in(const StoredTree& file, std::string_view folder) {
  std::vector<std::string> names;
  const auto node = file.find(std::string(folder));
  if (!node || node->kind() != NodeKind::kGroup) return names;
  for (std::string& name : node->member_names()) {
    const auto member = file.find(fmt::format("{}/{}", folder, name));
    if (member && member->kind() == NodeKind::kGroup) names.push_back(std::move(name));
  }
  return names;
}

std::string find_modality(const StoredTree& file, const std::vector<std::string>& known,
                          const std::string& modality) {
  if (modality.empty())
    throw_error(ErrorKind::kInvalidArgument, file.path(),
                "is a MuData file with the modalities {}: choose one with {}",
                fmt::join(known, ", "), argument("modality"));
  if (std::ranges::find(known, modality) == known.end())
    throw_error(ErrorKind::kNoSuchKey, file.path(), "no modality '{}'{}", modality,
                suggestion(modality, known));
  return std::string(kModalities) + modality;
}

std::string find_table(const StoredTree& file) {
  const std::vector<std::string> tables = groups_in(file, kTables);
  if (tables.empty()) return {};
  if (tables.size() > 1)
    throw_error(ErrorKind::kUnsupported, file.path(),
                "is a SpatialData store with several tables: {}; open one of them by its own path, "
                "such as {}/{}/{}",
                fmt::join(tables, ", "), file.path(), kTables, tables.front());
  return fmt::format("{}/{}", kTables, tables.front());
}

}  // namespace

std::string find_anndata(const StoredTree& file, const std::string& modality) {
  std::vector<std::string> modalities;
  if (!file.find("X")) modalities = groups_in(file, "mod");
  if (!modalities.empty()) return find_modality(file, modalities, modality);
  if (!modality.empty()) throw_error(ErrorKind::kInvalidArgument, file.path(), "{}", kNoMuData);
  return file.find("obs") ? std::string() : find_table(file);
}

std::vector<std::string> SubTree::whole(std::span<const std::string> paths) const {
  std::vector<std::string> all;
  for (const std::string& path : paths) all.push_back(whole(path));
  return all;
}

std::unique_ptr<const StoredTree> take_anndata(std::unique_ptr<const StoredTree> file,
                                               const std::string& modality) {
  std::string root = find_anndata(*file, modality);
  if (root.empty()) return file;
  return std::make_unique<const SubTree>(std::move(file), std::move(root));
}

}  // namespace cellfeed::format::anndata
