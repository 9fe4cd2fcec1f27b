package config

import (
	"regexp"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityText is the part of Kubernetes' syntax that people write: no signs, and no exponents
// whose zeros must be written out.
var quantityText = regexp.MustCompile(
	`^[0-9]{1,19}(?:\.[0-9]{1,9})?(?:[munkMGTP]|[KMGTP]i|[eE][0-9])?$`)

// quantityBounds are inclusive, in the unit of the result.
type quantityBounds struct {
	low, high         int64
	lowText, highText string
}

// memory reads bytes, as 256Mi.
func (r *reader) memory(n *yaml.Node, what string) int64 {
	q, ok := r.quantity(n, what, "an amount of memory such as 256Mi or 1Gi")
	if !ok {
		return 0
	}
	bytes := q.Value() // rounded up
	switch {
	case q.CmpInt64(bytes) != 0:
		r.mistake(n, "%s must be whole bytes, not %s: "+
			"m stands for thousandths and M or Mi for millions", what, quote(n.Value))
		return 0
	case bytes < memoryBounds.low && n.ShortTag() == "!!int":
		r.mistake(n, "%s must be from %s to %s; %s without a unit is bytes: write %[4]sMi",
			what, memoryBounds.lowText, memoryBounds.highText, clip(n.Value, maxQuoted))
		return 0
	}
	return r.within(n, what, bytes, memoryBounds)
}

// cpu reads thousandths of a core, as 500m or 0.5.
func (r *reader) cpu(n *yaml.Node, what string) int64 {
	q, ok := r.quantity(n, what, "a number of cores such as 500m, 0.5 or 2")
	if !ok {
		return 0
	}
	thousandths := q.MilliValue() // rounded up
	if exact := resource.NewMilliQuantity(thousandths, resource.DecimalSI); q.Cmp(*exact) != 0 {
		r.mistake(n, "%s must be whole thousandths of a core, such as 500m or 0.5, not %s",
			what, quote(n.Value))
		return 0
	}
	return r.within(n, what, thousandths, cpuBounds)
}

// quantity reads a quantity as Kubernetes writes them, with or without quotes.
func (r *reader) quantity(n *yaml.Node, what, form string) (q resource.Quantity, ok bool) {
	if n == nil || r.reported[n] {
		return q, false
	}
	if n.Kind != yaml.ScalarNode {
		r.mistake(n, "%s must be %s, not %s", what, form, describe(n))
		return q, false
	}
	var err error
	if !quantityText.MatchString(n.Value) {
		err = resource.ErrFormatWrong
	} else {
		q, err = resource.ParseQuantity(n.Value)
	}
	if err != nil {
		r.mistake(n, "%s must be %s, not %s", what, form, quote(n.Value))
	}
	return q, err == nil
}

// within reports a value outside its bounds, and returns 0 for it.
func (r *reader) within(n *yaml.Node, what string, value int64, b quantityBounds) int64 {
	if value < b.low || value > b.high {
		r.mistake(n, "%s must be from %s to %s, not %s",
			what, b.lowText, b.highText, clip(n.Value, maxQuoted))
		return 0
	}
	return value
}
