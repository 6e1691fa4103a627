package cluster

import _ "embed"

// Annotations by which a story controls what KWOK does.
const (
	// AnnotationFake with the value "fake" makes KWOK manage a node.
	AnnotationFake = "kwok.x-k8s.io/node"

	// AnnotationReadyAfter on a pod is a duration ("20s"). The pod runs at once and is ready after that time, like a
	// server that loads a model.
	AnnotationReadyAfter = "sandbox.gpuscale.io/ready-after"
)

//go:embed stages.yaml
var stages []byte
