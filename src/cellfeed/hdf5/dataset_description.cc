// The messages of a dataset, and whether they fit together.
#include "cellfeed/hdf5/dataset_description.h"

#include <array>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/elsewhere.h"
#include "cellfeed/hdf5/fill_value_message.h"
#include "cellfeed/hdf5/global_heap.h"

namespace cellfeed::hdf5 {
namespace {

[[noreturn]] void throw_virtual(const FileBytes& file, const std::string& name,
                                const std::string& where) {
  throw_error(ErrorKind::kUnsupported, file.path(),
              "'{}' is a virtual dataset over another file, and nothing outside of a file is read: "
              "'{}'; write the data into one file (adata.write_h5ad)",
              name, where);
}

// The first source of a virtual dataset, from the global heap block of section VII.
std::string virtual_source(const FileBytes& file, Cursor message) {
  message.skip(2);
  const Address collection = message.read_address();
  if (collection == 0 || collection == kUndefinedAddress) return {};
  GlobalHeap heap(file);
  const auto block = heap.object({collection, message.u32()});
  Cursor at(file, Bytes(block, nullptr), collection, "global heap block of a virtual dataset");
  const int version = at.u8();
  if (at.read_length() == 0 || version != 0) return {};
  return at.text();
}

void check_fit(const Cursor& layout, const DatasetDescription& dataset) {
  const CheckedSize n_bytes = CheckedSize(static_cast<std::int64_t>(dataset.space.n_elements)) *
                              CheckedSize(static_cast<std::int64_t>(dataset.type.size));
  if (!n_bytes.fits()) layout.fail("a dataset of more bytes than can be counted");
  const auto wanted = static_cast<std::uint64_t>(n_bytes.value());
  if (const auto* compact = std::get_if<CompactLayout>(&dataset.layout);
      compact != nullptr && compact->elements.size() < wanted)
    layout.fail("{} bytes where the dataset has {}", compact->elements.size(), wanted);
  if (const auto* contiguous = std::get_if<ContiguousLayout>(&dataset.layout);
      contiguous != nullptr && contiguous->n_bytes && *contiguous->n_bytes < wanted)
    layout.fail("{} bytes where the dataset has {}", *contiguous->n_bytes, wanted);
  if (const auto* chunked = std::get_if<ChunkedLayout>(&dataset.layout)) {
    if (chunked->chunk_shape.size() != dataset.space.shape.size())
      layout.fail("chunks of {} dimensions in a dataset of {}", chunked->chunk_shape.size(),
                  dataset.space.shape.size());
    if (chunked->element_bytes != dataset.type.size)
      layout.fail("chunks of elements of {} bytes in a dataset of {}", chunked->element_bytes,
                  dataset.type.size);
  }
  if (dataset.fill_value.size() != 0 && dataset.fill_value.size() != dataset.type.size)
    layout.fail("a fill value of {} bytes where an element has {}", dataset.fill_value.size(),
                dataset.type.size);
}

const HeaderMessage& require(const FileBytes& file, const ObjectHeader& header, MessageType type,
                             const char* what) {
  if (const auto* message = header.find(type)) return *message;
  Cursor(file, header.address(), 0, "object header").fail("the dataset has no {}", what);
}

}  // namespace

bool is_dataset(const ObjectHeader& header) { return header.find(MessageType::kLayout) != nullptr; }

DatasetDescription read_dataset_description(const FileBytes& file, const ObjectHeader& header,
                                            const SharedMessages& shared, const std::string& name) {
  const Cursor layout = shared.resolve(*header.find(MessageType::kLayout));
  DatasetDescription dataset;
  dataset.layout = read_layout_message(layout);
  if (std::holds_alternative<VirtualLayout>(dataset.layout))
    throw_virtual(file, name, virtual_source(file, layout));
  Cursor type = shared.resolve(require(file, header, MessageType::kDatatype, "datatype message"));
  dataset.type = read_datatype_message(type);
  dataset.space = read_dataspace_message(
      shared.resolve(require(file, header, MessageType::kDataspace, "dataspace message")));
  if (const auto* filters = header.find(MessageType::kFilterPipeline))
    dataset.filters = read_filter_pipeline_message(shared.resolve(*filters));
  if (const auto* fill = header.find(MessageType::kFillValue))
    dataset.fill_value = read_fill_value_message(shared.resolve(*fill));
  else if (const auto* old_fill = header.find(MessageType::kOldFillValue))
    dataset.fill_value = read_old_fill_value_message(shared.resolve(*old_fill));
  check_fit(layout, dataset);
  if (const auto* elsewhere = header.find(MessageType::kExternalFiles))
    throw_elsewhere(file.path(), name, "is stored in",
                    read_external_name(shared.resolve(*elsewhere)));
  return dataset;
}

}  // namespace cellfeed::hdf5
