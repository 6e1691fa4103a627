package plan

import (
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// models are the GPU models of the snapshot with their MIG tables. They translate what capacity offers
// and what pods request into a model's profiles. What has been computed once is kept: it depends on no
// trial.
type models struct {
	tables     mig.Tables
	tableOf    map[string]*mig.Table      // nil: the model has none
	seen       []gpu.Model                // of all GPUs
	requestIDs map[string]int             // numbers of the requests on each model
	answers    map[string]answer          // of pack.Target, by question
	additions  map[string][]mig.Placement // what can be added, by layout, see addable
}
