package externalgrpc

// message makes a struct one that protobuf encodes by its fields' tags.
type message struct{}

// Reset, String and ProtoMessage implement protoadapt.MessageV1. A message is decoded into once.
func (message) Reset()         {}
func (message) String() string { return "" }
func (message) ProtoMessage()  {}

// Empty are messages without fields.
type Empty struct{ message }

// Of is a request about a group.
type Of struct {
	message
	ID string `protobuf:"bytes,1,opt,name=id,proto3"`
}

// Resize is a request for a difference of a group's size.
type Resize struct {
	message
	Delta int32  `protobuf:"varint,1,opt,name=delta,proto3"`
	ID    string `protobuf:"bytes,2,opt,name=id,proto3"`
}

// DeleteNodes is a request to delete nodes of a group.
type DeleteNodes struct {
	message
	Nodes []*Node `protobuf:"bytes,1,rep,name=nodes,proto3"`
	ID    string  `protobuf:"bytes,2,opt,name=id,proto3"`
}

// Node is a node, as far as providers need it.
type Node struct {
	message
	ProviderID  string            `protobuf:"bytes,1,opt,name=providerID,proto3"`
	Name        string            `protobuf:"bytes,2,opt,name=name,proto3"`
	Labels      map[string]string `protobuf:"bytes,3,rep,name=labels,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	Annotations map[string]string `protobuf:"bytes,4,rep,name=annotations,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

// Groups are all node groups of a provider.
type Groups struct {
	message
	Groups []*Group `protobuf:"bytes,1,rep,name=nodeGroups,proto3"`
}

// Group is a node group.
type Group struct {
	message
	ID      string `protobuf:"bytes,1,opt,name=id,proto3"`
	MinSize int32  `protobuf:"varint,2,opt,name=minSize,proto3"`
	MaxSize int32  `protobuf:"varint,3,opt,name=maxSize,proto3"`
}

// Target is the size of a group that was last requested.
type Target struct {
	message
	Size int32 `protobuf:"varint,1,opt,name=targetSize,proto3"`
}

// Instances are those of a group.
type Instances struct {
	message
	Instances []*Instance `protobuf:"bytes,1,rep,name=instances,proto3"`
}

// Instance is a machine of a group.
type Instance struct {
	message
	ID     string  `protobuf:"bytes,1,opt,name=id,proto3"` // the node's providerID
	Status *Status `protobuf:"bytes,2,opt,name=status,proto3"`
}

// Status of an Instance.
type Status struct {
	message
	State int32  `protobuf:"varint,1,opt,name=instanceState,proto3"`
	Error *Error `protobuf:"bytes,2,opt,name=errorInfo,proto3"`
}

// Error is why an Instance could not be created; an empty Code for none.
type Error struct {
	message
	Code  string `protobuf:"bytes,1,opt,name=errorCode,proto3"`
	Text  string `protobuf:"bytes,2,opt,name=errorMessage,proto3"`
	Class int32  `protobuf:"varint,3,opt,name=instanceErrorClass,proto3"`
}

// States of an Instance.
const (
	Running  = 1
	Creating = 2
	Deleting = 3
)

// Is reports whether an instance is in a state.
func (i *Instance) Is(state int32) bool { return i.Status != nil && i.Status.State == state }

// Template is an encoded Kubernetes Node like a new one of a group. Providers of before 1.33 send it as the
// first field.
type Template struct {
	message
	Info  []byte `protobuf:"bytes,1,opt,name=nodeInfo,proto3"`
	Bytes []byte `protobuf:"bytes,2,opt,name=nodeBytes,proto3"`
}
