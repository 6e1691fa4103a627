// Package externalgrpc is a client of cluster-autoscaler's protocol for external cloud providers, as its
// README and cluster-autoscaler 1.34 (cloudprovider/externalgrpc/protos) describe it. It owns the messages
// and the connection; it decides nothing. Numbers of fields are the protocol's; names are not sent.
package externalgrpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Service is the protocol's service.
const Service = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"

// Config of a connection, with the keys of cluster-autoscaler's --cloud-config.
type Config struct {
	// Address of the provider, host:port.
	Address string `json:"address"`
	// Key and Cert are the files of the client's certificate; CACert has the authorities of the
	// provider's. With none of them the connection is not encrypted, and any client may call the
	// provider.
	Key    string `json:"key,omitempty"`
	Cert   string `json:"cert,omitempty"`
	CACert string `json:"cacert,omitempty"`
	// Timeout of a call, 0s for cluster-autoscaler's 5s.
	Timeout time.Duration `json:"grpc_timeout,omitempty"`
}

const (
	defaultTimeout = 5 * time.Second
	// MaxTimeout of a call, for which a reconcile may wait.
	MaxTimeout = 10 * time.Second
)

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	if _, port, err := net.SplitHostPort(c.Address); err != nil || port == "" {
		return fmt.Errorf("address: %q: want host:port", c.Address)
	}
	if given := c.Key != ""; given != (c.Cert != "") || given != (c.CACert != "") {
		return errors.New("key, cert and cacert: want all of them, or none")
	}
	if c.Timeout < 0 || c.Timeout > MaxTimeout {
		return fmt.Errorf("grpc_timeout: %s: want 0s to %s", c.Timeout, MaxTimeout)
	}
	return nil
}

// Client calls one provider.
type Client struct {
	conn    *grpc.ClientConn
	timeout time.Duration // of a call
}

// New returns a Client, which connects at its first call.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	with, err := c.credentials()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(c.Address, grpc.WithTransportCredentials(renewed{with, c}))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Address, err)
	}
	return &Client{conn, cmp.Or(c.Timeout, defaultTimeout)}, nil
}

// credentials reads the files of the configuration.
func (c Config) credentials() (credentials.TransportCredentials, error) {
	if c.CACert == "" {
		return insecure.NewCredentials(), nil
	}
	text, err := os.ReadFile(c.CACert)
	if err != nil {
		return nil, fmt.Errorf("reading cacert: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cacert: no certificate in %s", c.CACert)
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
			return &pair, err
		},
	}), nil
}

// renewed reads the files again for each handshake, so that renewed certificates and authorities are used.
type renewed struct {
	credentials.TransportCredentials
	config Config
}

// ClientHandshake implements credentials.TransportCredentials.
func (r renewed) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	with, err := r.config.credentials()
	if err != nil {
		return nil, nil, err
	}
	return with.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r renewed) Clone() credentials.TransportCredentials { return r }

func (c *Client) call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.conn.Invoke(ctx, "/"+Service+"/"+method, in, out); err != nil {
		return fmt.Errorf("calling %s: %w", method, err)
	}
	return nil
}

// Refresh has the provider read its cloud's state.
func (c *Client) Refresh(ctx context.Context) error {
	return c.call(ctx, "Refresh", &Empty{}, &Empty{})
}

// Groups returns all node groups.
func (c *Client) Groups(ctx context.Context) ([]*Group, error) {
	var out Groups
	err := c.call(ctx, "NodeGroups", &Empty{}, &out)
	return out.Groups, err
}

// TargetSize of a group. A negative one is an error: it is unknown, not 0.
func (c *Client) TargetSize(ctx context.Context, group string) (int, error) {
	var out Target
	err := c.call(ctx, "NodeGroupTargetSize", &Of{ID: group}, &out)
	if err == nil && out.Size < 0 {
		err = fmt.Errorf("calling NodeGroupTargetSize: the size of node group %s is %d", group, out.Size)
	}
	return int(out.Size), err
}

// IncreaseSize adds nodes to a group.
func (c *Client) IncreaseSize(ctx context.Context, group string, by int) error {
	return c.call(ctx, "NodeGroupIncreaseSize", &Resize{ID: group, Delta: int32(by)}, &Empty{})
}

// DecreaseTargetSize takes back nodes that were requested and not made.
func (c *Client) DecreaseTargetSize(ctx context.Context, group string, by int) error {
	return c.call(ctx, "NodeGroupDecreaseTargetSize", &Resize{ID: group, Delta: -int32(by)}, &Empty{})
}

// DeleteNodes deletes these nodes and lowers the group's size by them.
func (c *Client) DeleteNodes(ctx context.Context, group string, nodes ...*Node) error {
	return c.call(ctx, "NodeGroupDeleteNodes", &DeleteNodes{ID: group, Nodes: nodes}, &Empty{})
}

// Instances of a group.
func (c *Client) Instances(ctx context.Context, group string) ([]*Instance, error) {
	var out Instances
	err := c.call(ctx, "NodeGroupNodes", &Of{ID: group}, &out)
	return out.Instances, err
}

// Template returns an encoded Node like a new one of the group, nil without one.
func (c *Client) Template(ctx context.Context, group string) ([]byte, error) {
	var out Template
	err := c.call(ctx, "NodeGroupTemplateNodeInfo", &Of{ID: group}, &out)
	if len(out.Bytes) > 0 {
		return out.Bytes, err
	}
	return out.Info, err
}

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

// Failure is why an instance could not be created, empty if that is not so.
func (i *Instance) Failure() string {
	if !i.Is(Creating) || i.Status.Error == nil || i.Status.Error.Code == "" {
		return ""
	}
	return i.Status.Error.Code + ": " + i.Status.Error.Text
}

// Template is an encoded Kubernetes Node like a new one of a group. Providers of before 1.33 send it as the
// first field.
type Template struct {
	message
	Info  []byte `protobuf:"bytes,1,opt,name=nodeInfo,proto3"`
	Bytes []byte `protobuf:"bytes,2,opt,name=nodeBytes,proto3"`
}
