#include "cellfeed/collection/repeated_genes.h"

#include <arrow/api.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/gene_keys.h"

namespace cellfeed::collection {
namespace {

struct Column {
  std::size_t table = 0;
  std::int64_t column = 0;
};

// Texts of a column of var, where they tell all genes of a repeated name apart.
using Texts = std::vector<std::string>;

class Identities {
 public:
  explicit Identities(std::span<const GeneTable> tables)
      : tables_(tables), columns_(tables.size()) {}

  // Columns that tell the repeats of a table apart, read when they are first asked for.
  const std::map<std::string, Texts>& of(std::size_t t) {
    if (columns_[t]) return *columns_[t];
    auto& columns = columns_[t].emplace();
    const auto var = tables_[t].read_var();
    for (const std::string& name : var->schema()->field_names()) {
      const auto texts = text_column(name, *var->GetColumnByName(name));
      if (texts && std::ssize(*texts) == tables_[t].axis->size() && tells_apart(t, *texts))
        columns.emplace(name, std::move(*texts));
    }
    return columns;
  }

 private:
  // Names that were numbered tell no more than the numbers do.
  bool tells_apart(std::size_t t, const Texts& texts) const {
    if (!tables_[t].axis->repeated.empty() && texts == tables_[t].axis->names) return false;
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const auto& [column, name] : tables_[t].axis->repeated) {
      const std::string& text = texts[static_cast<std::size_t>(column)];
      if (text.empty() || !seen.emplace(name, text).second) return false;
    }
    return true;
  }

  std::span<const GeneTable> tables_;
  std::vector<std::optional<std::map<std::string, Texts>>> columns_;
};

// Whether two columns are one gene, as far as columns of var tell that both tables have.
struct Evidence {
  bool for_same = false;
  std::string for_different;  // what tells that; empty: nothing
};

Evidence compare_identities(Identities& identities, const Column& a, const Column& b) {
  Evidence found;
  const auto& of_a = identities.of(a.table);
  const auto& of_b = identities.of(b.table);
  for (const auto& [name, texts] : of_a) {
    const auto it = of_b.find(name);
    if (it == of_b.end()) continue;
    const std::string& text_a = texts[static_cast<std::size_t>(a.column)];
    const std::string& text_b = it->second[static_cast<std::size_t>(b.column)];
    if (text_a.empty() || text_b.empty()) continue;
    if (text_a == text_b)
      found.for_same = true;
    else
      found.for_different = fmt::format(
          "by '{}' of var, column {} of the one is '{}' and column {} of the other '{}'", name,
          a.column, text_a, b.column, text_b);
  }
  return found;
}

class RepeatCheck {
 public:
  explicit RepeatCheck(std::span<const GeneTable> tables) : tables_(tables), identities_(tables) {}

  void run() {
    find_contested();
    if (contested_names_.empty()) return;
    for (std::size_t t = 0; t < tables_.size(); ++t) add_columns(t);
    for (const auto& [gene, columns] : by_gene_)
      for (std::size_t i = 1; i < columns.size(); ++i) require_same(columns[0], columns[i]);
    for (const auto& [name, columns] : by_name_)
      for (const Column& a : columns)
        for (const Column& b : columns)
          if (a.table != b.table && gene_of(a) >= 0 && gene_of(a) != gene_of(b))
            require_different(a, b);
  }

 private:
  std::int64_t gene_of(const Column& at) const {
    const auto* map = tables_[at.table].map;
    return map ? (*map)[static_cast<std::size_t>(at.column)] : at.column;
  }
  const std::string& original_name(const Column& at) const {
    const matrix::GeneAxis& axis = *tables_[at.table].axis;
    const auto it = axis.repeated.find(at.column);
    return it == axis.repeated.end() ? axis.names[static_cast<std::size_t>(at.column)] : it->second;
  }

  void find_contested() {
    for (std::size_t t = 0; t < tables_.size(); ++t)
      for (const auto& [column, name] : tables_[t].axis->repeated)
        if (const auto gene = gene_of({t, column}); gene >= 0) {
          contested_genes_.insert(gene);
          contested_names_.insert(name);
        }
  }
  void add_columns(std::size_t t) {
    for (std::int64_t column = 0; column < tables_[t].axis->size(); ++column) {
      const Column at{t, column};
      if (contested_genes_.contains(gene_of(at))) by_gene_[gene_of(at)].push_back(at);
      if (const auto& name = original_name(at); contested_names_.contains(name))
        by_name_[name].push_back(at);
    }
  }

  // Where axes are equal name by name, genes are the same unless something tells otherwise.
  void require_same(const Column& a, const Column& b) {
    const auto& axis_a = *tables_[a.table].axis;
    const auto& axis_b = *tables_[b.table].axis;
    const bool are_alike = &axis_a == &axis_b || axis_a.names == axis_b.names;
    const Evidence found = compare_identities(identities_, a, b);
    if (!found.for_different.empty() || !(found.for_same || are_alike)) refuse(a, b, found);
  }
  void require_different(const Column& a, const Column& b) {
    if (tables_[a.table].axis->names == tables_[b.table].axis->names) return;
    const Evidence found = compare_identities(identities_, a, b);
    if (found.for_different.empty()) refuse(a, b, found);
  }

  std::string describe(const Column& at) const {
    std::string columns;
    int n = 0;
    for (const auto& [other, name] : tables_[at.table].axis->repeated)
      if (name == original_name(at)) {
        columns += fmt::format("{}{}", n++ == 0 ? "" : ", ", other);
      }
    if (n == 0) return fmt::format("'{}' in column {}", original_name(at), at.column);
    return fmt::format("'{}' in columns {}", original_name(at), columns);
  }
  [[noreturn]] void refuse(const Column& a, const Column& b, const Evidence& found) const {
    std::string known = found.for_different;
    if (known.empty() && found.for_same)
      known = fmt::format("columns {} and {} would be two genes though var says they are one",
                          a.column, b.column);
    if (known.empty()) known = "no column of var that both have tells which is which";
    throw_error(ErrorKind::kInvalidArgument, tables_[b.table].path,
                "has gene {}, and {} has {}: names that repeat do not say which genes are the "
                "same, and {}. Name genes by a column of var that is unique ({}), or rename them "
                "in the files by one rule, or ask for genes without these",
                describe(b), tables_[a.table].path, describe(a), known, argument("var_key"));
  }

  std::span<const GeneTable> tables_;
  Identities identities_;
  std::set<std::int64_t> contested_genes_;  // joined columns
  std::set<std::string> contested_names_;
  std::map<std::int64_t, std::vector<Column>> by_gene_;
  std::map<std::string, std::vector<Column>> by_name_;
};

}  // namespace

void require_known_repeats(std::span<const GeneTable> tables) {
  const bool has_repeats =
      std::ranges::any_of(tables, [](const auto& table) { return !table.axis->repeated.empty(); });
  if (has_repeats && tables.size() > 1) RepeatCheck(tables).run();
}

}  // namespace cellfeed::collection
