// Azure Blob Storage. A bucket is a container.
#pragma once

#include "cellfeed/cloud/object_store.h"

namespace cellfeed::cloud {

const ObjectStore& azure_store();

}  // namespace cellfeed::cloud
