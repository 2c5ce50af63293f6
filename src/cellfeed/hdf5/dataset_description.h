// What an object header says of a dataset. Thread-safe: a value. Lifetime: the FileBytes outlives
// it.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/hdf5/dataspace_message.h"
#include "cellfeed/hdf5/datatype_message.h"
#include "cellfeed/hdf5/filter_pipeline_message.h"
#include "cellfeed/hdf5/layout_message.h"
#include "cellfeed/hdf5/object_header.h"
#include "cellfeed/hdf5/shared_message.h"

namespace cellfeed::hdf5 {

struct DatasetDescription {
  Dataspace space;
  Datatype type;
  Layout layout;
  std::vector<FilterDescription> filters;  // in the order of writing
  Bytes fill_value;                        // one element as stored; no bytes mean zeros
};

bool is_dataset(const ObjectHeader& header);
// name: the dataset's path, for errors. Throws kCorruptData, also where shape, datatype and layout
// do not fit together, and kUnsupported naming the file where the elements lie in another one
// (virtual dataset, external storage). REQUIRES: is_dataset(header).
DatasetDescription read_dataset_description(const FileBytes& file, const ObjectHeader& header,
                                            const SharedMessages& shared, const std::string& name);

}  // namespace cellfeed::hdf5
