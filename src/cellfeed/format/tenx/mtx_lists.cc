#include "cellfeed/format/tenx/mtx_lists.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/io/sequential_reader.h"

namespace cellfeed::format::tenx {
namespace {

constexpr std::int64_t kMaxGeneBytes = std::int64_t{1} << 30;

void require_room(const std::string& path, std::int64_t line, std::string_view text,
                  std::int64_t& bytes) {
  bytes += std::ssize(text);
  if (bytes > kMaxGeneBytes)
    throw_error(ErrorKind::kUnsupported, path, "holds more than 1 GiB of names, in line {}", line);
}

std::size_t place_of(const std::string& path, const std::vector<std::string>& headings,
                     const char* name) {
  const auto at = std::ranges::find(headings, name);
  if (at == headings.end())
    throw_error(ErrorKind::kCorruptData, path, "has no column '{}'; there are: {}", name,
                excerpt(fmt::format("{}", fmt::join(headings, ", "))));
  return static_cast<std::size_t>(at - headings.begin());
}

void require_length(const ListLength& list, std::int64_t n, const char* axis) {
  if (list.n == n && !list.has_more) return;
  std::string hint;
  if (list.n == n + 1 && !list.has_more && !list.first.empty())
    hint = fmt::format("; is the first line a heading: '{}'?", list.first);
  throw_error(ErrorKind::kCorruptData, list.path,
              "must have a line for each of the {} {} of the matrix ({}), and has {}{}{}", n, axis,
              list.what, list.n, list.has_more ? " or more" : "", hint);
}

}  // namespace

ListLength visit_lines(const SourcePtr& source, const char* what, std::int64_t most,
                       const std::function<void(std::int64_t, std::string_view)>& visit) {
  io::LineReader lines(source, kMaxLineBytes);
  ListLength length{.path = source->path(), .what = what};
  std::int64_t first_blank = 0;
  while (const auto line = lines.next()) {
    if (io::is_blank(*line)) {
      if (first_blank == 0) first_blank = lines.number();
      continue;
    }
    if (first_blank != 0)
      throw_error(ErrorKind::kCorruptData, source->path(), "line {} is empty ({})", first_blank,
                  what);
    if (length.n == 0) length.first = excerpt(*line);
    length.has_more = ++length.n > most;
    if (length.has_more) break;
    if (!is_utf8(*line))
      throw_error(ErrorKind::kCorruptData, source->path(),
                  "damaged text, which is not UTF-8, in line {} ({})", lines.number(), what);
    visit(lines.number(), *line);
  }
  return length;
}

void leave_headings_out(ListLength& length) {
  if (length.n > 0) --length.n;
  length.first.clear();
}

const std::vector<std::string_view>& split_line(const std::string& path, std::int64_t line,
                                                std::string_view text, char separator,
                                                CsvFields& fields) {
  if (const std::string_view wrong = fields.split(text, separator); !wrong.empty())
    throw_error(ErrorKind::kCorruptData, path, "line {}: {}: '{}'", line, wrong, excerpt(text));
  return fields.fields();
}

void require_columns(const std::string& path, std::int64_t line, std::size_t n, std::size_t wanted,
                     std::string_view text) {
  if (n != wanted)
    throw_error(ErrorKind::kCorruptData, path,
                "line {} has {} columns, and the first line has {}: '{}'", line, n, wanted,
                excerpt(text));
}

GeneList read_features(const SourcePtr& source, bool has_types, std::int64_t most) {
  GeneList list;
  CsvFields split;
  std::size_t n_cols = 0;
  std::int64_t bytes = 0;
  list.length =
      visit_lines(source, "features", most, [&](std::int64_t line, std::string_view text) {
        const auto& fields = split_line(source->path(), line, text, '\t', split);
        if (n_cols == 0) n_cols = fields.size();
        require_columns(source->path(), line, fields.size(), n_cols, text);
        require_room(source->path(), line, text, bytes);
        list.names.emplace_back(fields[n_cols > 1 ? 1 : 0]);
        if (n_cols > 1) list.ids.emplace_back(fields[0]);
        if (has_types && n_cols > 2) list.types.emplace_back(fields[2]);
      });
  return list;
}

GeneList read_gene_table(const SourcePtr& source, std::int64_t most) {
  GeneList list;
  CsvFields split;
  std::vector<std::string> headings;
  std::size_t id = 0, name = 0, genome = 0;
  std::int64_t bytes = 0;
  list.length =
      visit_lines(source, "genes", most + 1, [&](std::int64_t line, std::string_view text) {
        const auto& fields = split_line(source->path(), line, text, ',', split);
        if (headings.empty()) {
          headings.assign(fields.begin(), fields.end());
          id = place_of(source->path(), headings, "gene_id");
          name = place_of(source->path(), headings, "gene_name");
          genome = place_of(source->path(), headings, "genome");
          return;
        }
        require_columns(source->path(), line, fields.size(), headings.size(), text);
        require_room(source->path(), line, text, bytes);
        list.names.emplace_back(fields[fields[name].empty() ? id : name]);
        list.ids.emplace_back(fields[id]);
        list.genomes.emplace_back(fields[genome]);
      });
  leave_headings_out(list.length);
  return list;
}

void read_gene_names(const SourcePtr& source, GeneList& genes) {
  GeneList list = read_features(source, false, genes.length.n);
  if (list.length.n != genes.length.n)
    throw_error(ErrorKind::kCorruptData, source->path(),
                "must have a line for each of the {} genes of '{}', and has {}{}", genes.length.n,
                genes.length.path, list.length.n, list.length.has_more ? " or more" : "");
  genes.ids = std::exchange(genes.names, std::move(list.names));
}

void orient(MtxHeader& header, const std::string& path, bool has_cells_first,
            std::optional<bool> transpose, const ListLength& cells, const ListLength& genes) {
  if (transpose) has_cells_first = !*transpose;
  const auto fits = [&](bool rows_are_cells) {
    header.rows_are_cells = rows_are_cells;
    return header.n_cells() == cells.n && header.n_features() == genes.n;
  };
  if (!fits(has_cells_first) && (transpose || !fits(!has_cells_first)))
    header.rows_are_cells = has_cells_first;
  require_numbers(path, header.n_features(), header.n_cells());
  require_length(genes, header.n_features(), header.rows_are_cells ? "columns" : "rows");
  require_length(cells, header.n_cells(), header.rows_are_cells ? "rows" : "columns");
}

}  // namespace cellfeed::format::tenx
