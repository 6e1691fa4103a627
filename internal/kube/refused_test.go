package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A duration's own reader names no field: the error does.
func TestRefusedFieldIsNamed(t *testing.T) {
	var into struct {
		Name  string `json:"name"`
		Outer struct {
			Good, Every metav1.Duration
		} `json:"outer"`
	}
	err := Strict([]byte("name: a\nouter: {Good: 2s, Every: 1x}\n"), &into)
	if err == nil || !strings.HasPrefix(err.Error(), "outer.Every: ") {
		t.Error(err)
	}
}
