package object

// ID identifies an object, and one of its states. It is a value of its own, for those who remember
// states without their content: it shares no memory with that.
type ID struct {
	text string    // namespace/name, uid and resourceVersion, one after the other
	ends [3]uint32 // where in text the namespace, the name and the uid end
}

// Namespace returns the namespace, or "" for a cluster-scoped object.
func (id ID) Namespace() string { return id.text[:id.ends[0]] }

// Name returns the object's name within its namespace and resource.
func (id ID) Name() string {
	if id.ends[0] == 0 {
		return id.Key()
	}
	return id.text[id.ends[0]+1 : id.ends[1]]
}

// UID returns the uid, which distinguishes objects of one name that exist one after the other.
func (id ID) UID() string { return id.text[id.ends[1]:id.ends[2]] }

// ResourceVersion returns the server's version of this state.
func (id ID) ResourceVersion() string { return id.text[id.ends[2]:] }

// Key returns namespace/name, or the name alone, like client-go's MetaNamespaceKeyFunc.
func (id ID) Key() string { return id.text[:id.ends[1]] }
