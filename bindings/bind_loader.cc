// The loader, its iterators and batches.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/loader/batch_assembly.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/loader/first_values.h"
#include "gil.h"
#include "tokens.h"
#include "waiting_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using loader::BatchIterator;
using loader::LoadedBatch;
using loader::LoaderCore;

// How long a wait for a batch goes on before Ctrl-C is looked for.
constexpr std::int64_t kSignalCheckMs = 50;

// Its end joins threads, which may be in the middle of a long read: Python's go on meanwhile.
class PyIterator {
 public:
  explicit PyIterator(std::unique_ptr<BatchIterator> iterator) : iterator_(std::move(iterator)) {}
  PyIterator(const PyIterator&) = delete;
  PyIterator& operator=(const PyIterator&) = delete;
  ~PyIterator() {
    const ReleasedGil released;
    iterator_.reset();
  }
  BatchIterator& get() { return *iterator_; }

 private:
  std::unique_ptr<BatchIterator> iterator_;
};

// One matrix of a batch.
struct PyBlock {
  std::shared_ptr<LoadedBatch> loaded;
  std::size_t number = 0;

  const matrix::Block& block() const { return loaded->batch().block(number); }
  bool is_sparse() const { return std::holds_alternative<matrix::CsrBlock>(block()); }
  const matrix::CsrBlock& csr() const {
    if (const auto* csr = std::get_if<matrix::CsrBlock>(&block())) return *csr;
    throw Error(ErrorKind::kInvalidArgument, "this batch is dense: it has no indptr and indices");
  }
  const matrix::ValueBuffer& values() const {
    if (const auto* values = matrix::block_values(block())) return *values;
    throw Error(ErrorKind::kInvalidArgument, "this batch holds tokens, and no matrix");
  }
};

// A loaded batch, as the block that is its x.
struct PyBatch : PyBlock {
  const matrix::Batch& batch() const { return loaded->batch(); }
};

loader::Output output_from_name(const std::string& name) {
  if (name == "csr") return loader::Output::kCsr;
  if (name == "dense") return loader::Output::kDense;
  if (name == "tokens") return loader::Output::kTokens;
  throw_invalid("output must be \"csr\", \"dense\" or \"tokens\": '{}'", name);
}

// matrices: output and dtype of each further matrix of the collection; empty: as of the first.
std::shared_ptr<const LoaderCore> make_core(
    std::shared_ptr<const collection::Collection> cells, const std::string& output,
    const std::string& dtype, const std::string& casting, std::vector<std::string> obs,
    std::vector<std::shared_ptr<transform::Transform>> transforms, std::int64_t memory_budget,
    int threads, int prefetch, const std::optional<std::string>& torch_library,
    const std::vector<std::pair<std::string, std::string>>& matrices,
    std::shared_ptr<loader::TokenOutput> tokens) {
  loader::LoaderOptions options;
  options.output = output_from_name(output);
  options.dtype = dtype_from_name(dtype);
  for (const auto& [own_output, own_dtype] : matrices)
    options.matrices.push_back({output_from_name(own_output), dtype_from_name(own_dtype)});
  options.tokens = std::move(tokens);
  options.casting = casting_from_name(casting);
  options.obs = std::move(obs);
  options.transforms.assign(transforms.begin(), transforms.end());
  options.memory_budget = memory_budget;
  options.threads = threads;
  options.prefetch_batches = prefetch;
  if (torch_library)
    options.pinned =
        std::make_shared<loader::PinnedMemory>(loader::load_torch_functions(*torch_library));
  // Labels are read here.
  return call_released(cells->is_remote(), [&] {
    return loader::make_loader_core(std::move(cells), std::move(options));
  });
}

PyBatch next_batch(PyIterator& self) {
  BatchIterator& iterator = self.get();
  for (;;) {
    std::shared_ptr<LoadedBatch> loaded;
    BatchIterator::Status status;
    {
      const ReleasedGil released;
      status = iterator.next(kSignalCheckMs, &loaded);
    }
    if (status == BatchIterator::Status::kReady) return {{std::move(loaded)}};
    if (status == BatchIterator::Status::kEnd) throw nb::stop_iteration();
    if (PyErr_CheckSignals() != 0) {
      nb::python_error interruption;  // takes it from this thread of Python
      {
        const ReleasedGil released;
        iterator.stop();
      }
      throw interruption;
    }
  }
}

nb::dict stats_of(const LoaderCore& core) {
  const loader::Counters& c = *core.counters;
  constexpr double kSeconds = 1e-9;
  nb::dict stats;
  stats["cells"] = c.cells.load();
  stats["batches"] = c.batches.load();
  stats["nnz"] = c.nnz.load();
  stats["bytes_read"] = c.bytes_read.load();
  stats["bytes_used"] = c.bytes_used.load();
  stats["wait_seconds"] = static_cast<double>(c.wait_ns.load()) * kSeconds;
  stats["fetch_seconds"] = static_cast<double>(c.fetch_ns.load()) * kSeconds;
  stats["decode_seconds"] = static_cast<double>(c.decode_ns.load()) * kSeconds;
  stats["transform_seconds"] = static_cast<double>(c.transform_ns.load()) * kSeconds;
  const std::int64_t batches = std::max<std::int64_t>(c.batches.load(), 1);
  const double elapsed = static_cast<double>(c.elapsed_ns.load()) * kSeconds;
  stats["elapsed_seconds"] = elapsed;
  stats["cells_per_second"] = elapsed > 0 ? static_cast<double>(c.cells.load()) / elapsed : 0.0;
  nb::dict entropy;
  for (std::size_t i = 0; i < core.obs.size(); ++i)
    if (core.obs[i]->is_categorical())
      entropy[core.obs[i]->name().c_str()] =
          c.entropy_bits[i].load() /
          static_cast<double>(std::max<std::int64_t>(c.assembled.load(), 1));
  stats["label_entropy_bits"] = entropy;
  stats["queue_depth"] = static_cast<double>(c.ready_sum.load()) / static_cast<double>(batches);
  stats["peak_bytes"] = c.peak_bytes.load();
  stats["threads"] = core.options.threads;
  return stats;
}

NumpyArray values_array(const PyBlock& self) {
  const matrix::ValueBuffer& values = self.values();
  const DType dtype = matrix::value_buffer_dtype(values);
  const void* data = matrix::value_buffer_data(values);
  if (self.is_sparse())
    return untyped_as_array(
        dtype, data, {static_cast<std::size_t>(self.csr().indptr[self.csr().n_rows])}, self.loaded);
  const auto& dense = std::get<matrix::DenseBlock>(self.block());
  return untyped_as_array(
      dtype, data, {static_cast<std::size_t>(dense.n_rows), static_cast<std::size_t>(dense.n_cols)},
      self.loaded);
}

// What torch makes a tensor of; whoever gets it owns it. None where the batch is not page-locked,
// or empty.
nb::object pinned_tensor(const PyBlock& self, bool wants_indices) {
  const loader::PinnedMemory* pinned = self.loaded->pinned();
  const auto make = [&](const auto& buffer) -> nb::object {
    if (pinned == nullptr || buffer.handle() == nullptr) return nb::none();
    return nb::capsule(pinned->make_tensor(buffer.handle(), buffer.size() * sizeof(buffer[0])));
  };
  if (wants_indices) return make(self.csr().indices);
  return std::visit(make, self.values());
}

void bind_block(nb::module_& module) {
  nb::class_<PyBlock>(module, "Block")
      .def_prop_ro("is_sparse", &PyBlock::is_sparse)
      .def_prop_ro("n_rows", [](const PyBlock& self) { return self.loaded->batch().n_rows(); })
      .def_prop_ro("n_cols",
                   [](const PyBlock& self) { return matrix::block_columns(self.block()); })
      .def_prop_ro("indptr",
                   [](const PyBlock& self) {
                     return as_array(self.csr().indptr.data(), {self.csr().indptr.size()},
                                     self.loaded);
                   })
      .def_prop_ro("indices",
                   [](const PyBlock& self) {
                     const auto& csr = self.csr();
                     return as_array(csr.indices.data(),
                                     {static_cast<std::size_t>(csr.indptr[csr.n_rows])},
                                     self.loaded);
                   })
      .def_prop_ro("values", &values_array)
      .def_prop_ro("is_pinned",
                   [](const PyBlock& self) { return self.loaded->pinned() != nullptr; })
      .def("pinned_indices", [](const PyBlock& self) { return pinned_tensor(self, true); })
      .def("pinned_values", [](const PyBlock& self) { return pinned_tensor(self, false); });
}

void bind_batch(nb::module_& module) {
  nb::class_<PyBatch, PyBlock>(module, "Batch")
      .def(
          "matrix",
          [](const PyBatch& self, std::size_t number) {
            if (number > self.batch().others.size())
              throw Error(ErrorKind::kOutOfRange,
                          fmt::format("the batch has {} matrices, and no number {}",
                                      self.batch().others.size() + 1, number));
            return PyBlock{self.loaded, number};
          },
          "number"_a, "Number 0 is x, the others are those of the collection.")
      .def_prop_ro("rows",
                   [](const PyBatch& self) {
                     return as_array(self.batch().rows.data(), {self.batch().rows.size()},
                                     self.loaded);
                   })
      .def_prop_ro("is_padding",
                   [](const PyBatch& self) -> std::optional<NumpyArray> {
                     const auto& padding = self.batch().is_padding;
                     if (padding.empty()) return std::nullopt;
                     return as_array(reinterpret_cast<const bool*>(padding.data()),
                                     {padding.size()}, self.loaded);
                   })
      .def_prop_ro("tokens", [](const PyBatch& self) { return PyTokens{self.loaded}; })
      .def("obs", [](const PyBatch& self, std::size_t i) {
        const auto& column = self.batch().obs.at(i);
        return untyped_as_array(column.dtype, column.bytes.data(), {self.batch().rows.size()},
                                self.loaded);
      });
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_tokens(module);
  bind_block(module);
  bind_batch(module);
  nb::class_<PyIterator>(module, "BatchIterator")
      .def(
          "__iter__", [](nb::handle self) { return self; },
          nb::sig("def __iter__(self) -> BatchIterator"))
      .def("__next__", &next_batch)
      .def("stop", [](PyIterator& self) { self.get().stop(); }, nb::call_guard<ReleasedGil>());
  nb::class_<LoaderCore>(module, "LoaderCore")
      .def_static("make", &make_core, "collection"_a, "output"_a, "dtype"_a, "casting"_a, "obs"_a,
                  "transforms"_a, "memory_budget"_a, "threads"_a, "prefetch"_a,
                  "torch_library"_a = nb::none(),
                  "matrices"_a = std::vector<std::pair<std::string, std::string>>(),
                  "tokens"_a = nb::none())
      .def_prop_ro("gene_names",
                   [](const LoaderCore& self) { return self.matrices[0].pipeline->genes().names; })
      .def_prop_ro("n_genes",
                   [](const LoaderCore& self) { return self.matrices[0].pipeline->genes().size(); })
      .def(
          "matrix_genes",
          [](const LoaderCore& self, std::size_t number) {
            return self.matrices.at(number).pipeline->genes().names;
          },
          "number"_a, "Names of the columns of one matrix of a batch.")
      .def_prop_ro("threads", [](const LoaderCore& self) { return self.options.threads; })
      .def(
          "iterate",
          [](std::shared_ptr<const LoaderCore> self, const sampling::Plan& plan, std::int64_t first,
             std::int64_t step) {
            return new PyIterator(
                std::make_unique<BatchIterator>(std::move(self), plan, first, step));
          },
          nb::rv_policy::take_ownership, "plan"_a, "first"_a = 0, "step"_a = 1)
      .def(
          "read_rows",
          [](const LoaderCore& self, const Int64Array& rows) {
            return call_released(self.collection->is_remote(), [&] {
              return PyBatch{{loader::read_rows(self, {rows.data(), rows.size()})}};
            });
          },
          "rows"_a)
      .def_prop_ro("values_are_in_question",
                   [](const LoaderCore& self) {
                     return loader::expects_counts(*self.collection, self.options.transforms) ||
                            std::ranges::any_of(self.matrices, [&](const auto& matrix) {
                              return loader::is_in_question(*matrix.cells, matrix.dtype,
                                                            self.options.casting);
                            });
                   })
      .def(
          "check_values",
          [](const LoaderCore& self, const Int64Array& rows) {
            call_released(self.collection->is_remote(), [&] {
              for (const auto& matrix : self.matrices)
                loader::check_first_values(*matrix.cells, {rows.data(), rows.size()}, matrix.dtype,
                                           self.options.casting);
              loader::require_counts(*self.collection, {rows.data(), rows.size()},
                                     self.options.transforms);
            });
          },
          "rows"_a)
      .def("stats", &stats_of);
  module.attr("MAX_THREADS") = exec::kMaxThreads;
  module.attr("MIN_MEMORY_BUDGET") = exec::kMinMemoryBudget;
  module.def("stop_all_iterators", &loader::stop_all_iterators, nb::call_guard<ReleasedGil>());
}

}  // namespace cellfeed::bindings
