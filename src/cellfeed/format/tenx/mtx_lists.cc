#include "cellfeed/format/tenx/mtx_lists.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/tenx/mtx_text.h"
#include "cellfeed/io/sequential_reader.h"

namespace cellfeed::format::tenx {
namespace {

constexpr std::int64_t kMaxFeatureBytes = std::int64_t{1} << 30;

using Visit = std::function<void(std::int64_t line, std::string_view text)>;

// "features", and how many of them there have to be.
struct Wanted {
  const char* what;
  const char* axis;  // of the matrix
  std::int64_t n;
  std::int64_t n_other_axis;
};

[[noreturn]] void throw_wrong_length(const std::string& path, const Wanted& wanted, std::int64_t n,
                                     bool has_more, const std::string& first) {
  std::string hint;
  if (n == wanted.n_other_axis && n != wanted.n)
    hint =
        "; it looks like a matrix of cells x genes, where 10x writes genes x cells: transpose it";
  else if (n == wanted.n + 1 && !has_more)
    hint = fmt::format("; is the first line a heading: '{}'?", first);
  throw_error(ErrorKind::kCorruptData, path,
              "must have a line for each of the {} {} of the matrix ({}), and has {}{}{}", wanted.n,
              wanted.axis, wanted.what, n, has_more ? " or more" : "", hint);
}

// Blank lines at the end are no lines.
void visit_lines(const SourcePtr& source, const Wanted& wanted, const Visit& visit) {
  io::LineReader lines(source, kMaxLineBytes);
  const std::int64_t most = std::max(wanted.n, wanted.n_other_axis) + 1;
  std::int64_t n = 0, first_blank = 0;
  std::string first;
  while (const auto line = lines.next()) {
    if (io::is_blank(*line)) {
      if (first_blank == 0) first_blank = lines.number();
      continue;
    }
    if (first_blank != 0)
      throw_error(ErrorKind::kCorruptData, source->path(), "line {} is empty ({})", first_blank,
                  wanted.what);
    if (n == 0) first = excerpt(*line);
    if (++n > most) throw_wrong_length(source->path(), wanted, n, true, first);
    if (n > wanted.n) continue;
    if (!is_utf8(*line))
      throw_error(ErrorKind::kCorruptData, source->path(),
                  "damaged text, which is not UTF-8, in line {} ({})", lines.number(), wanted.what);
    visit(lines.number(), *line);
  }
  if (n != wanted.n) throw_wrong_length(source->path(), wanted, n, false, first);
}

// Without the quotes that spreadsheets and R put around.
std::string unquoted(const std::string& path, std::int64_t line, std::string_view field) {
  if (!field.starts_with('"')) return std::string(field);
  if (field.size() < 2 || !field.ends_with('"'))
    throw_error(ErrorKind::kCorruptData, path, "a quote is not closed in line {}: '{}'", line,
                excerpt(field));
  std::string text;
  for (std::size_t i = 1; i + 1 < field.size(); ++i) {
    text.push_back(field[i]);
    if (field[i] == '"' && field[i + 1] == '"' && i + 2 < field.size()) ++i;
  }
  return text;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

}  // namespace

FeatureList read_features(SourcePtr source, const MtxShape& shape, bool has_types) {
  FeatureList list;
  std::size_t n_cols = 0;
  std::int64_t bytes = 0;
  visit_lines(source, {"features", "rows", shape.n_features, shape.n_cells},
              [&](std::int64_t line, std::string_view text) {
                const auto fields = split(text);
                if (n_cols == 0) n_cols = fields.size();
                if (fields.size() != n_cols)
                  throw_error(ErrorKind::kCorruptData, source->path(),
                              "line {} has {} columns between tabs, and those before {}: '{}'",
                              line, fields.size(), n_cols, excerpt(text));
                bytes += std::ssize(text);
                if (bytes > kMaxFeatureBytes)
                  throw_error(ErrorKind::kUnsupported, source->path(),
                              "holds more than 1 GiB of names, in line {}", line);
                const auto field = [&](std::size_t i) {
                  return unquoted(source->path(), line, fields[i]);
                };
                list.names.push_back(field(n_cols > 1 ? 1 : 0));
                if (n_cols > 1) list.ids.push_back(field(0));
                if (has_types && n_cols > 2) list.types.push_back(field(2));
              });
  return list;
}

void check_barcodes(SourcePtr source, const MtxShape& shape) {
  visit_lines(source, {"barcodes", "columns", shape.n_cells, shape.n_features},
              [](std::int64_t, std::string_view) {});
}

std::string barcode_of(const std::string& path, std::int64_t line, std::string_view text) {
  return unquoted(path, line, text.substr(0, text.find('\t')));
}

}  // namespace cellfeed::format::tenx
