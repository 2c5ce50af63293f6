#include "cellfeed/loader/row_pipeline.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {

namespace {

using transform::Once;

// By what shards and files say of their values (format/processing.h), and what transforms before
// this one make of them.
void refuse_repetition(const collection::Collection& collection, const transform::Transforms& all,
                       std::size_t number) {
  const transform::Transform& transform = *all[number];
  const Once once = transform.once();
  if (once == Once::kNothing || transform.is_forced()) return;
  for (std::int64_t s = 0; s < collection.n_stores(); ++s) {
    const auto done = collection.processing(s);
    if (done.is_log1p || (once == Once::kNormalization && done.is_normalized))
      throw_error(ErrorKind::kInvalidArgument, collection.store(s).info().path,
                  "its values are {} already ({}): leave {} out, or force it (force=True)",
                  done.is_log1p ? "log-transformed" : "normalised", done.text(), transform.name());
  }
  for (std::size_t i = 0; i < number; ++i)
    if (all[i]->once() == Once::kLogarithm || all[i]->once() == once)
      throw_invalid(
          "transforms: {} comes behind {}, which {}: put it first or leave it out, or force it "
          "(force=True)",
          transform.name(), all[i]->name(),
          all[i]->once() == Once::kLogarithm ? "makes logarithms" : "normalises");
}

}  // namespace

RowPipeline::RowPipeline(const collection::Collection& collection, const LoaderOptions& options)
    : genes_(collection.genes()), collection_(collection) {
  collection.processing();  // throws
  transform::Transforms bound;
  for (std::size_t i = 0; i < options.transforms.size(); ++i) {
    const auto& transform = options.transforms[i];
    if (transform->needs_float() && !is_float(options.dtype))
      throw_invalid("{} needs float32 or float64 batches; pass dtype=\"float32\" instead of: '{}'",
                    transform->name(), dtype_name(options.dtype));
    refuse_repetition(collection, options.transforms, i);
    auto knowing = transform->bind(genes_);
    bound.push_back(knowing ? std::move(knowing) : transform);
    genes_ = transform->output_genes(genes_);
  }
  stages_ = transform::plan_stages(bound);
  needs_library_size_ = !stages_.kept_genes.empty() && stages_.kept_genes[0]->needs_library_size();
  if (needs_library_size_) find_library_sizes(collection);
  compose_maps(collection);
  if (options.output == Output::kDense && only_moves_columns()) invert_maps();
}

// Totals are known of values as they are stored, and of nothing that a transform makes of them.
void RowPipeline::find_library_sizes(const collection::Collection& collection) {
  for (std::int64_t s = 0; s < collection.n_stores(); ++s) {
    library_sizes_.push_back(collection.store(s).known_library_sizes());
    if (library_sizes_.back() && !stages_.whole_row.empty())
      throw_error(
          ErrorKind::kInvalidArgument, collection.store(s).info().path,
          "{} behind {} needs the total of all genes of a cell as {} leaves them, and genes "
          "were left out here; put NormalizeTotal first, or convert with all genes",
          stages_.kept_genes[0]->name(), stages_.whole_row.back()->name(),
          stages_.whole_row.back()->name());
  }
}

void RowPipeline::set_library_size(std::int64_t store, transform::Row* row) const {
  const auto& sizes = library_sizes_[static_cast<std::size_t>(store)];
  if (!sizes) {
    row->library_size = transform::library_size(*row);
    return;
  }
  const std::int64_t own_row = collection_.locate(row->cell).row;
  row->library_size =
      transform::library_size(*row, static_cast<const double*>(sizes->values)[own_row]);
}

std::vector<std::int32_t> RowPipeline::compose_selections() const {
  std::vector<std::int32_t> composed;
  for (const auto& selection : stages_.selections) {
    const Map map = dynamic_cast<const transform::SelectGenes&>(*selection).map();
    if (composed.empty()) {
      composed.assign(map.begin(), map.end());
      continue;
    }
    for (std::int32_t& column : composed) column = column < 0 ? -1 : map[column];
  }
  return composed;
}

void RowPipeline::compose_maps(const collection::Collection& collection) {
  const Map selection = composed_.emplace_back(compose_selections());
  // Stores with equal axes share a map; those of the joined axis have none.
  std::map<const void*, transform::ColumnMap> composed;
  for (std::int64_t s = 0; s < collection.n_stores(); ++s) {
    const auto [it, is_new] = composed.try_emplace(collection.gene_map_id(s));
    if (is_new) {
      const Map join = collection.gene_map(s);
      const Map places = collection.has_joined_axis(s) ? selection : compose(join, selection);
      const transform::MapTraits traits = transform::find_traits(places);
      it->second = {places, traits, narrow_.emplace_back(narrow_places(places, traits)),
                    marks_.emplace_back(mark_kept(places, traits))};
    }
    maps_.push_back(it->second);
  }
}

RowPipeline::Map RowPipeline::compose(Map join, Map selection) {
  if (selection.empty()) return join;
  auto& map = composed_.emplace_back(join.begin(), join.end());
  for (std::int32_t& column : map) column = column < 0 ? -1 : selection[column];
  return map;
}

void RowPipeline::invert_maps() {
  std::map<const void*, Map> inverted;
  for (std::int64_t s = 0; s < collection_.n_stores(); ++s) {
    const Map places = maps_[s].places;
    const bool stays = collection_.has_joined_axis(s) && places.empty();
    const auto [it, is_new] = inverted.try_emplace(collection_.gene_map_id(s));
    if (is_new && !stays) {
      auto& columns = composed_.emplace_back(static_cast<std::size_t>(genes_.size()), -1);
      for (std::size_t column = 0; column < places.size(); ++column)
        if (places[column] >= 0) columns[places[column]] = static_cast<std::int32_t>(column);
      it->second = columns;
    }
    source_columns_.push_back(it->second);
  }
}

bool RowPipeline::drops_columns() const {
  return std::ranges::any_of(
      maps_, [](const transform::ColumnMap& map) { return !map.empty() && !map.traits.keeps_all; });
}

double RowPipeline::kept_columns() const {
  double most = 0;
  const std::int32_t* known = nullptr;  // stores of one axis share a map
  for (const transform::ColumnMap& map : maps_) {
    if (map.empty() || map.traits.keeps_all) return 1;
    if (std::exchange(known, map.places.data()) == map.places.data()) continue;
    const auto n = std::ranges::count_if(map.places, [](std::int32_t at) { return at >= 0; });
    most = std::max(most, static_cast<double>(n) / static_cast<double>(map.places.size()));
  }
  return most;
}

void RowPipeline::apply(std::int64_t store, transform::Row& row, transform::EntryOrder order,
                        const transform::RowRoom& room) const {
  for (const auto& transform : stages_.whole_row) {
    if (transform->needs_library_size()) row.library_size = transform::library_size(row);
    transform->apply(row);
  }
  if (needs_library_size_) set_library_size(store, &row);
  if (const auto& map = maps_[static_cast<std::size_t>(store)]; !map.empty())
    transform::remap_row(row, map, order, room);
  for (const auto& transform : stages_.kept_genes) transform->apply(row);
}

void RowPipeline::rethrow_placed(const Error& error, std::int64_t cell) const {
  if (error.kind() != ErrorKind::kInvalidArgument || !error.path().empty()) throw;
  const collection::RowPlace place = collection_.locate(cell);
  throw_error(error.kind(), collection_.store(place.store).info().path, "row {}: {}", place.row,
              error.what());
}

}  // namespace cellfeed::loader
