"""The frontier: which URLs wait, of which sites, and when each site may be asked again. So far: a site's slot."""
