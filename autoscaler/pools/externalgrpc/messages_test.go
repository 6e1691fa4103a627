package externalgrpc

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// TestWire: messages are on the wire as cluster-autoscaler 1.34 encodes them. The bytes are written after
// its externalgrpc.proto, field by field.
func TestWire(t *testing.T) {
	for want, message := range map[string]protoadapt.MessageV1{
		"0a0167":                        &Of{ID: "g"},
		"0805":                          &Target{Size: 5},
		"08feffffffffffffffff01 120167": &Resize{Delta: -2, ID: "g"},
		"0a0e 0a0170 12016e 1a06 0a016b 120176 120167": &DeleteNodes{
			Nodes: []*Node{{ProviderID: "p", Name: "n", Labels: map[string]string{"k": "v"}}}, ID: "g"},
		"0a08 0a0167 1001 18ac02": &Groups{Groups: []*Group{{ID: "g", MinSize: 1, MaxSize: 300}}},
		"0a0e 0a0169 1209 0803 1205 0a0163 1801": &Instances{
			Instances: []*Instance{{ID: "i", Status: &Status{State: Deleting, Error: &Error{Code: "c", Class: 1}}}}},
		"0a0161 120162": &Template{Info: []byte("a"), Bytes: []byte("b")},
		"":              &Empty{},
	} {
		got, err := proto.Marshal(protoadapt.MessageV2Of(message))
		if text := hex.EncodeToString(got); err != nil || text != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%T: %s, %v, want %s", message, text, err, want)
		}
		back := reflect.New(reflect.TypeOf(message).Elem()).Interface().(protoadapt.MessageV1)
		if err := proto.Unmarshal(got, protoadapt.MessageV2Of(back)); err != nil || !reflect.DeepEqual(back, message) {
			t.Errorf("%T: %+v, %v", message, back, err)
		}
	}
}
