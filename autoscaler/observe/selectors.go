package observe

import (
	"cmp"
	"fmt"

	celsource "github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/gpuscale/gpuscale/internal/text"
)

// selected is what CEL selectors require of a device, as far as they are equalities joined by &&, as drivers document
// them. The API server has compiled them.
type selected struct {
	driver     string
	attributes map[string]map[string]string // by domain and name
	unread     error                        // the first selector of another form
}

// readSelectors reads the selectors of a device class and of a request together: a device must
// satisfy all of them.
func readSelectors(lists ...[]resourcev1.DeviceSelector) selected {
	s := selected{attributes: map[string]map[string]string{}}
	size := 0
	for _, list := range lists {
		for _, one := range list {
			if one.CEL == nil {
				s.fail(fmt.Errorf("a selector that is not CEL"))
				continue
			}
			if size += len(one.CEL.Expression); size > maxSelectors {
				s.fail(fmt.Errorf("selectors of more than %d bytes", maxSelectors))
				return s
			}
			if tree := parsed(one.CEL.Expression); tree == nil || !s.read(tree) {
				const most = 200 // the text is in a condition of each pod
				s.fail(fmt.Errorf("selector %q is not supported: want equalities joined by &&", text.Short(one.CEL.Expression, most)))
			}
		}
	}
	return s
}

func (s *selected) fail(err error) { s.unread = cmp.Or(s.unread, err) }

// trees has the last expressions that were parsed: the pods of a workload have the same, in each reconcile.
var trees = lru.New(1000)

// parsed returns the syntax tree of an expression, nil for what is no CEL.
func parsed(expression string) ast.Expr {
	if tree, known := trees.Get(expression); known {
		out, _ := tree.(ast.Expr)
		return out
	}
	var out ast.Expr
	if p, err := parser.NewParser(); err == nil {
		if tree, errs := p.Parse(celsource.NewTextSource(expression)); len(errs.GetErrors()) == 0 {
			out = tree.Expr()
		}
	}
	trees.Add(expression, out)
	return out
}

// read reads an expression, and reports whether it has read all of it. Terms beside an unsupported one are read too, since
// a device must satisfy them as well; the driver above all.
func (s *selected) read(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		first := s.read(args[0])
		return s.read(args[1]) && first
	case operators.Equals:
		return s.equal(args[0], args[1]) || s.equal(args[1], args[0])
	case operators.In:
		return args[1].Kind() == ast.ListKind && args[1].AsList().Size() == 1 && s.equal(args[0], args[1].AsList().Elements()[0])
	}
	return false
}

// equal records the value of the driver or of an attribute; false if it is neither, or has another value already.
func (s *selected) equal(of, value ast.Expr) bool {
	name, is := member(of), literal(value)
	switch {
	case is == "":
	case len(name) == 1 && name[0] == "driver":
		s.driver = cmp.Or(s.driver, is)
		return s.driver == is
	case len(name) == 3 && name[0] == "attributes":
		if s.attributes[name[1]] == nil {
			s.attributes[name[1]] = map[string]string{}
		}
		all := s.attributes[name[1]]
		all[name[2]] = cmp.Or(all[name[2]], is)
		return all[name[2]] == is
	}
	return false
}

// member returns the names of a member of the device, such as [attributes gpu.nvidia.com type]; nil for anything else.
func member(e ast.Expr) []string {
	var object ast.Expr
	name := ""
	switch e.Kind() {
	case ast.SelectKind:
		object, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			object, name = call.Args()[0], literal(call.Args()[1])
		}
	}
	if name == "" {
		return nil
	}
	if object.Kind() == ast.IdentKind && object.AsIdent() == "device" {
		return []string{name}
	}
	if of := member(object); of != nil {
		return append(of, name)
	}
	return nil
}

// literal is a text, empty for anything else.
func literal(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	is, _ := e.AsLiteral().Value().(string)
	return is
}
