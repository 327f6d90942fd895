"""Tags and branches."""

from __future__ import annotations

import lance
from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableBranchResponse,
    CreateTableTagRequest,
    CreateTableTagResponse,
    DeleteTableBranchRequest,
    DeleteTableBranchResponse,
    DeleteTableTagRequest,
    DeleteTableTagResponse,
    GetTableTagVersionRequest,
    GetTableTagVersionResponse,
    ListTableBranchesRequest,
    ListTableBranchesResponse,
    ListTableTagsRequest,
    ListTableTagsResponse,
    UpdateTableTagRequest,
    UpdateTableTagResponse,
)
from lance_namespace_urllib3_client.models.branch_contents import BranchContents
from lance_namespace_urllib3_client.models.tag_contents import TagContents

from lance_catalog.directory.operations.access import MAIN, TableAccess, lance_errors
from lance_catalog.directory.operations.paging import page
from lance_catalog.errors import (
    InvalidInputError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
)

__all__ = [
    "create_table_branch",
    "create_table_tag",
    "delete_table_branch",
    "delete_table_tag",
    "get_table_tag_version",
    "list_table_branches",
    "list_table_tags",
    "update_table_tag",
]


def list_table_tags(access: TableAccess, request: ListTableTagsRequest) -> ListTableTagsResponse:
    """The tags by name, a page at a time."""
    dataset = access.open_table(request.id)
    with lance_errors("list_table_tags"):
        tags = dataset.tags.list()
    names, token = page(tags, request.page_token, request.limit)
    return ListTableTagsResponse(
        tags={
            name: TagContents(
                branch=tags[name]["branch"],
                version=tags[name]["version"],
                manifestSize=tags[name]["manifest_size"],
            )
            for name in names
        },
        page_token=token,
    )


def get_table_tag_version(
    access: TableAccess, request: GetTableTagVersionRequest
) -> GetTableTagVersionResponse:
    """The version a tag points to, and its branch unless that is main."""
    dataset = access.open_table(request.id)
    # Lance's own lookup by name leaves out the branch, without which the version says nothing.
    with lance_errors("get_table_tag_version"):
        tag = dataset.tags.list().get(request.tag)
    if tag is None:
        raise TableTagNotFoundError(
            f"get_table_tag_version: no tag '{request.tag}'; list_table_tags shows those there are"
        )
    return GetTableTagVersionResponse(version=tag["version"], branch=tag["branch"])


def create_table_tag(access: TableAccess, request: CreateTableTagRequest) -> CreateTableTagResponse:
    """Name a version of a branch."""
    dataset = access.open_table(request.id)
    with lance_errors("create_table_tag"):
        dataset.tags.create(request.tag, _reference(dataset, request.branch, request.version))
    return CreateTableTagResponse()


def update_table_tag(access: TableAccess, request: UpdateTableTagRequest) -> UpdateTableTagResponse:
    """Point a tag to another version."""
    dataset = access.open_table(request.id)
    with lance_errors("update_table_tag"):
        dataset.tags.update(request.tag, _reference(dataset, request.branch, request.version))
    return UpdateTableTagResponse()


def delete_table_tag(access: TableAccess, request: DeleteTableTagRequest) -> DeleteTableTagResponse:
    """Remove a tag; the version stays."""
    dataset = access.open_table(request.id)
    with lance_errors("delete_table_tag"):
        dataset.tags.delete(request.tag)
    return DeleteTableTagResponse()


def list_table_branches(
    access: TableAccess, request: ListTableBranchesRequest
) -> ListTableBranchesResponse:
    """The branches by name, a page at a time; main is not among them."""
    dataset = access.open_table(request.id)
    with lance_errors("list_table_branches"):
        branches = dataset.branches.list()
    names, token = page(branches, request.page_token, request.limit)
    return ListTableBranchesResponse(
        branches={
            name: BranchContents(
                parentBranch=branches[name]["parent_branch"],
                parentVersion=branches[name]["parent_version"],
                createAt=branches[name]["create_at"],
                manifestSize=branches[name]["manifest_size"],
                metadata=branches[name]["metadata"] or None,
            )
            for name in names
        },
        page_token=token,
    )


def create_table_branch(
    access: TableAccess, request: CreateTableBranchRequest
) -> CreateTableBranchResponse:
    """Start a branch at a version of main or of another branch."""
    dataset = access.open_table(request.id)
    with lance_errors("create_table_branch"):
        # Lance answers a taken name with an internal error, after it looked for it itself.
        if request.name in dataset.branches.list():
            raise TableBranchAlreadyExistsError(
                f"create_table_branch: the branch '{request.name}' exists already"
            )
        reference = _reference(dataset, request.from_branch, request.from_version)
        dataset.create_branch(request.name, reference)
    return CreateTableBranchResponse()


def delete_table_branch(
    access: TableAccess, request: DeleteTableBranchRequest
) -> DeleteTableBranchResponse:
    """Remove a branch and its versions; one that other branches start from is refused (13)."""
    if not request.name:
        raise InvalidInputError("delete_table_branch: 'name' is empty")
    dataset = access.open_table(request.id)
    with lance_errors("delete_table_branch"):
        dataset.branches.delete(request.name)
    return DeleteTableBranchResponse()


def _reference(
    dataset: lance.LanceDataset, branch: str | None, version: int | None
) -> tuple[str | None, int | None]:
    """A version of a branch, as Lance takes it; 22 when the branch is not there.

    Asked for a version of a missing branch, Lance says that the version is missing.
    """
    if branch is None or branch == MAIN:
        return None, version
    if branch not in dataset.branches.list():
        raise TableBranchNotFoundError(
            f"no branch '{branch}'; list_table_branches shows those there are"
        )
    return branch, version
