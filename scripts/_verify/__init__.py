"""`vpm verify`: checks the service's statements using only a node. It uses neither the database nor the service, and
does not trust the document. Addresses come from the deployment file of the node's chain; everything else comes from
logs and views at one block. `claims` records each finding and `chain` reads the chain. `subject` recognizes the kind of
a document; `stock`, `agent`, `relay`, `proof` and `attestation` check documents of the different kinds."""
