package sink

// UniqueID is the message's id in a form by which a destination may drop what it has already: the id itself, unless
// that is a bare number. Tables count their rows each by itself, and two of them use the same numbers: then it is
// pipeline/table/number.
func UniqueID(d *Delivery) string {
	if id := d.Message.ID; !isNumber(id) {
		return id
	}
	return QualifiedID(d)
}

// QualifiedID is the message's id with the pipeline and the table that it is unique in.
func QualifiedID(d *Delivery) string {
	return d.Source + "/" + d.Message.Table + "/" + d.Message.ID
}

func isNumber(id string) bool {
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return i == 0 && id[i] == '-' && len(id) > 1 && isNumber(id[1:])
		}
	}
	return id != ""
}
