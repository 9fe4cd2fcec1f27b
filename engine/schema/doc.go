// Package schema says which fields an object of a resource can have, and of which kind.
//
// A [Catalog] reads OpenAPI v3 documents, as the API server serves them, and
// CustomResourceDefinitions. Both become a [Type] per resource. A Type answers one question
// strictly: can there be a field of this name? It says no only if the schema closes every
// alternative. What a schema leaves open, or what this package does not understand, may be anything.
//
// The package validates no objects. It knows no required fields, formats or limits. It is pure: it
// knows no cluster and no file.
package schema
