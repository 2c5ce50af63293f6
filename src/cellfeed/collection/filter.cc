#include "cellfeed/collection/filter.h"

#include <algorithm>
#include <map>
#include <optional>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/collection/filter_condition.h"

namespace cellfeed::collection {
namespace {

constexpr std::int64_t kRowsAtOnce = 1 << 16;

std::string mirrored(const std::string& comparison) {
  if (comparison == "<") return ">";
  if (comparison == "<=") return ">=";
  if (comparison == ">") return "<";
  if (comparison == ">=") return "<=";
  return comparison;
}

bool is_column(const FilterNode& node) {
  return node.kind == NodeKind::kColumn || node.kind == NodeKind::kCall;
}

Truth negated(Truth truth) {
  return static_cast<Truth>(static_cast<int>(Truth::kTrue) - static_cast<int>(truth));
}

bool holds_booleans(const JoinedColumn& column) {
  return !column.is_categorical() && column.stored_dtype() == DType::kBool;
}

// Values of columns of some rows, each gathered once.
class Gathered {
 public:
  explicit Gathered(std::vector<RowPlace> places) : places_(std::move(places)) {}
  std::size_t n_rows() const { return places_.size(); }
  const void* of(const JoinedColumn& column) {
    auto& values = values_[&column];
    if (values.empty() && !places_.empty()) {
      values.resize(places_.size() * dtype_bytes(column.dtype()));
      column.gather(places_, values.data());
    }
    return values.data();
  }

 private:
  std::vector<RowPlace> places_;
  std::map<const JoinedColumn*, std::vector<std::byte>> values_;
};

}  // namespace

// A condition, or tests joined by a word.
struct Filter::Test {
  std::optional<FilterCondition> condition{};
  NodeKind kind = NodeKind::kAnd;  // of the others: kAnd, kOr, kNot
  std::vector<Test> children{};

  std::vector<Truth> of(Gathered& values) const {
    std::vector<Truth> holds(values.n_rows());
    if (condition) {
      condition->test(values.of(condition->column()), holds);
      return holds;
    }
    holds = children[0].of(values);
    for (std::size_t c = 1; c < children.size(); ++c) {
      const auto other = children[c].of(values);
      for (std::size_t i = 0; i < holds.size(); ++i)
        holds[i] =
            kind == NodeKind::kAnd ? std::min(holds[i], other[i]) : std::max(holds[i], other[i]);
    }
    if (kind == NodeKind::kNot)
      for (Truth& one : holds) one = negated(one);
    return holds;
  }
};

// Gives the tree of an expression its meaning.
class Filter::Builder {
 public:
  Builder(const Collection& cells, std::string_view text, std::string what,
          std::vector<std::string>& warnings)
      : cells_(cells), text_(text), what_(std::move(what)), warnings_(warnings) {}

  Test test_of(const FilterNode& node) {
    if (node.kind == NodeKind::kAnd || node.kind == NodeKind::kOr || node.kind == NodeKind::kNot) {
      Test test{.kind = node.kind};
      for (const FilterNode& child : node.children) test.children.push_back(test_of(child));
      return test;
    }
    if (node.kind == NodeKind::kComparison) return comparisons(node);
    if (node.kind == NodeKind::kColumn && holds_booleans(*column(node)))
      return condition(node, FilterCondition::kIsTrue, {});
    refuse("this is no condition", node);
  }

  Test one_of(const std::string& name, const std::vector<FilterValue>& values) {
    const bool only_missing = FilterCondition::asks_only_missing("in", values);
    return {.condition = FilterCondition(find(name, only_missing), "in", values, what_, warnings_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const FilterNode& node) const {
    refuse_filter(text_, what, node.at);
  }

  // a < b < c is a < b and b < c.
  Test comparisons(const FilterNode& node) {
    Test all{.kind = NodeKind::kAnd};
    for (std::size_t i = 0; i < node.words.size(); ++i)
      all.children.push_back(comparison(node.children[i], node.words[i], node.children[i + 1]));
    return all;
  }

  Test comparison(const FilterNode& left, const std::string& word, const FilterNode& right) {
    if (word == "is" || word == "is not") {
      if (right.kind != NodeKind::kColumn || right.name != "missing")
        refuse("after is comes missing, or not missing", right);
      return condition(left, word + " missing", {});
    }
    if (word == "in" || word == "not in") {
      if (right.kind != NodeKind::kList)
        refuse(fmt::format("after {} comes a list of values", word), right);
      std::vector<FilterValue> values;
      for (const FilterNode& item : right.children) values.push_back(value(item));
      return condition(left, word, values);
    }
    if (is_column(left)) return condition(left, word, {value(right)});
    return condition(right, mirrored(word), {value(left)});
  }

  Test condition(const FilterNode& node, const std::string& comparison,
                 const std::vector<FilterValue>& values) {
    if (!is_column(node))
      refuse(
          fmt::format("{} {} column is compared with a value", what_ == "obs" ? "an" : "a", what_),
          node);
    const auto found = column(node, FilterCondition::asks_only_missing(comparison, values));
    try {
      return {.condition = FilterCondition(found, comparison, values, what_, warnings_)};
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{} ({})", error.what(), place_in_filter(text_, node.at)));
    }
  }

  std::shared_ptr<const JoinedColumn> column(const FilterNode& node, bool only_missing = false) {
    if (node.kind == NodeKind::kCall) refuse("there are no functions here", node);
    try {
      return find(node.name, only_missing);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoSuchKey) throw;
      throw Error(error.kind(),
                  fmt::format("{} ({})", error.what(), place_in_filter(text_, node.at)));
    }
  }

  std::shared_ptr<const JoinedColumn> find(const std::string& name, bool only_missing) {
    const auto known = cells_.obs_names();
    if (std::ranges::find(known, name) == known.end())
      throw_error(ErrorKind::kNoSuchKey, {}, "no {} column '{}'{}", what_, name,
                  suggestion(name, known));
    return only_missing ? cells_.obs_column_as_rounded(name) : cells_.obs_column(name);
  }

  FilterValue value(const FilterNode& node) const {
    if (node.kind == NodeKind::kValue) return node.value;
    if (node.kind == NodeKind::kColumn)
      refuse("a column is compared with a value; texts need quotes", node);
    if (node.is_bitwise) refuse("& and | bind tighter than ==: write and, or", node);
    refuse("this is no value: texts, numbers, True and False are", node);
  }

  const Collection& cells_;
  std::string_view text_;
  std::string what_;
  std::vector<std::string>& warnings_;
};

Filter::Filter(std::shared_ptr<const Collection> cells, std::string_view text, std::string what)
    : cells_(std::move(cells)) {
  const FilterNode tree = parse_filter(text);
  test_ = std::make_unique<const Test>(
      Builder(*cells_, text, std::move(what), warnings_).test_of(tree));
}

Filter::Filter(std::shared_ptr<const Collection> cells, const OneOfEach& wanted)
    : cells_(std::move(cells)) {
  if (wanted.empty()) throw_invalid("the filter names no obs column");
  Builder builder(*cells_, {}, "obs", warnings_);
  Test all{.kind = NodeKind::kAnd};
  for (const auto& [name, values] : wanted) all.children.push_back(builder.one_of(name, values));
  test_ = std::make_unique<const Test>(std::move(all));
}

Filter::~Filter() = default;
Filter::Filter(Filter&&) noexcept = default;

std::vector<std::int64_t> Filter::rows_between(std::int64_t begin, std::int64_t end) const {
  std::vector<RowPlace> places;
  places.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t row = begin; row < end; ++row) places.push_back(cells_->locate(row));
  Gathered values(std::move(places));
  const auto holds = test_->of(values);
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < holds.size(); ++i)
    if (holds[i] == Truth::kTrue) rows.push_back(begin + static_cast<std::int64_t>(i));
  return rows;
}

std::vector<std::int64_t> Filter::rows(const ParallelFor& parallel) const {
  const std::int64_t n = cells_->n_rows();
  std::vector<std::vector<std::int64_t>> pieces(
      static_cast<std::size_t>((n + kRowsAtOnce - 1) / kRowsAtOnce));
  parallel(std::ssize(pieces), [&](std::int64_t piece) {
    pieces[piece] = rows_between(piece * kRowsAtOnce, std::min(n, (piece + 1) * kRowsAtOnce));
  });
  std::vector<std::int64_t> rows;
  for (const auto& piece : pieces) rows.insert(rows.end(), piece.begin(), piece.end());
  return rows;
}

}  // namespace cellfeed::collection
