// Package measure keeps the metrics that manifests define: what an object, or a change, adds to which
// series, and what the series add up to.
//
// A [Metric] is compiled. It evaluates an object, or a change, to a [Sample], which is pure. A [Gauge]
// and a [Counter] keep the series, and a [Part] keeps what the objects of one informer contribute to
// a Gauge.
//
// A series of a Gauge is the sum over the objects that share its labels. It is there as long as one
// of them is. Each object contributes what was last set for it, so a Gauge does not depend on the way
// by which its objects came to be as they are.
//
// A metric has at most Metric.Max series to show. A Gauge also keeps the others, of which there are
// at most as many as objects: when a series goes, the one that has waited longest takes its place,
// and is right at once. A Counter cannot do that without a bound, so it leaves out changes whose
// labels would make another series. Both count what finds no room.
package measure
